"""Alerts about institutions whose nightly sync did not happen.

Under Dagster the sensor `watch` does it; else `rollbook fleet sync` when it begins, and `rollbook fleet watch` at any
time. All use the institution's own alerts, which record what was reported, so that nothing is reported twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pipelines.cron import due
from pipelines.errors import RollbookError
from pipelines.fleet.nights import outcomes
from pipelines.institutions import Institution
from pipelines.notify import together
from pipelines.notify.alerts import Alerts, Kind, Outcome


def alerts_of(institutions: Mapping[str, Institution], clock: Callable[[], datetime]) -> dict[str, Alerts]:
    """The alerts of each institution that has an address to notify."""
    found = ((name, together.alerts_of(name, clock)) for name in institutions)
    return {name: alerts for name, alerts in found if alerts is not None}


def report_late(
    alerts: Mapping[str, Alerts], institutions: Mapping[str, Institution], fleet: Path
) -> dict[str, datetime]:
    """Report each late night; returns the newly reported ones by institution.

    A night is late once its grace period is over and no sync has ended since it began, good or not: a sync that ended
    has reported itself. A paused institution is not late. `together.deliver` sends the reports.
    """
    found = {}
    for name, own in alerts.items():
        night = own.missed_night()
        if night is None:
            continue
        outcome = Outcome(f"late {night.astimezone(UTC):%Y-%m-%dT%H:%M}Z", Kind.LATE, night.date(), _says(own, night))
        if own.was_reported(outcome.id):
            continue
        state = outcomes.load(fleet, name)
        if institutions[name].paused or state.paused or _has_ended(own, state, night):
            continue
        own.report(outcome)
        found[name] = night
    return found


def _says(alerts: Alerts, night: datetime) -> str:
    return (
        f"It was due at {night:%H:%M} ({alerts.settings.timezone}), and no sync has ended since. Check that the machine"
        " was on, and that `rollbook serve` runs or `rollbook fleet sync` is started each night. To sync now, run"
        " `rollbook fleet sync`"
    )


def _has_ended(alerts: Alerts, state: outcomes.State, night: datetime) -> bool:
    begun = night - due(alerts.settings.cron).slack
    if state.last is not None and state.last.at >= begun:
        return True
    raw = alerts.rollbook.raw
    try:
        newest = raw.manifests(raw.days()[-1])
    except (IndexError, RollbookError, OSError):
        return False
    return any(m.verdict is not None and (m.judged_at or m.finished_at) >= begun for m in newest)
