"""`rollbook notify`."""

from __future__ import annotations

from typing import Annotated

import typer

from rollbook.errors import ArgumentError, SettingError
from rollbook.settings import load
from rollbook.terminal import (
    Panel,
    app,
    out,
)
from rollbook.util import machine


@app.command(rich_help_panel=Panel.ASK)
def notify(
    *, test: Annotated[bool, typer.Option("--test", help="Send a message that says it is a test.")] = False
) -> None:
    """Send a test message to every address of ROLLBOOK_NOTIFY, and say which of them took it.

    Exits 1 if one did not.
    """
    from rollbook.features.alerts.addresses import AlertSettings
    from rollbook.features.alerts.channels import send

    settings = AlertSettings.of(load(fetches=False))
    if not test:
        raise ArgumentError("Add --test to send a test message; alerts about nights go out by themselves")
    if settings.notify is None:
        raise SettingError("ROLLBOOK_NOTIFY is not set, so nobody is told of a failed or a held night")
    text = f"This is a test from {machine.account()}'s Rollbook. Alerts about failed, held and late nights come here."
    failed = send(settings.notify, settings.notify_names, "Rollbook: a test", text)
    for name in settings.notify_names:
        out.print(
            f"{name} {failed[name].message.partition(' of ROLLBOOK_NOTIFY ')[2] if name in failed else 'took it'}."
        )
    if failed:
        raise typer.Exit(1)
