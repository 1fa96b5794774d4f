"""Rollbook's tests: the folders mirror pipelines/rollbook/, a test's name or docstring says what must hold."""

import pytest

# The values of a failed assertion are shown also in a shared helper.
pytest.register_assert_rewrite("tests.support", "tests.source", "tests.campaign")
