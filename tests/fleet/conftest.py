"""What the fleet's tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_settings_from_outside() -> None:
    """Keep the settings of a district that is made once for a module: the common fixture would clear them."""
