"""`rollbook notify`: which address takes a message, before a night needs it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rollbook.cli import app
from rollbook.errors import SettingError
from tests.support.wire.listeners import Webhook

pytestmark = pytest.mark.nights


def test_a_test_message_goes_to_each_address_and_refusals_are_named(
    hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLBOOK_NOTIFY", hook.url)
    done = CliRunner().invoke(app, ["notify"])
    assert (done.exit_code, done.stdout) == (0, "address 1 (json) took it.\n")
    assert hook.heads == ["Rollbook: a test"]
    monkeypatch.setenv("ROLLBOOK_NOTIFY", f"{hook.url},json://127.0.0.1:9/x")
    done = CliRunner().invoke(app, ["notify"])
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "address 1 (json) took it.",
        "address 2 (json) could not be reached, or did not answer in time.",
    ]


def test_without_an_address_it_says_so() -> None:
    with pytest.raises(SettingError, match="ROLLBOOK_NOTIFY is not set"):
        CliRunner().invoke(app, ["notify"], catch_exceptions=False)
