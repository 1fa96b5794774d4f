"""`rollbook notify`."""

from __future__ import annotations

import typer

from rollbook.errors import SettingError
from rollbook.settings import load
from rollbook.terminal import (
    Panel,
    app,
    out,
)
from rollbook.util import machine


@app.command(rich_help_panel=Panel.ASK)
def notify() -> None:
    """Send a test message to every address of ROLLBOOK_NOTIFY, and say which of them took it.

    Alerts about nights go out by themselves. Exits 1 if an address did not take the message.
    """
    from rollbook.features.alerts.addresses import AlertSettings
    from rollbook.features.alerts.channels import send

    settings = AlertSettings.of(load(fetches=False))
    if settings.notify is None:
        raise SettingError(
            "ROLLBOOK_NOTIFY is not set, so nobody is told of a failed or a held night: put addresses into a file,"
            " such as mailtos://... or, for a webhook, jsons://..., and the file's path into ROLLBOOK_NOTIFY_FILE"
        )
    text = f"This is a test from {machine.account()}'s Rollbook. Alerts about failed, held and late nights come here."
    failed = send(settings.notify, settings.notify_names, "Rollbook: a test", text)
    for name in settings.notify_names:
        out.print(
            f"{name} {failed[name].message.partition(' of ROLLBOOK_NOTIFY ')[2] if name in failed else 'took it'}."
        )
    if failed:
        raise typer.Exit(1)
