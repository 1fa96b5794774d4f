"""Runs the nightly job from the command line, so that it shows in Dagster's UI like any other run.

Dagster is imported only when a run begins: most commands do not need it.
"""

from __future__ import annotations

import logging
from datetime import date
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pipelines.cli.app import open_rollbook
from pipelines.errors import RollbookError
from pipelines.settings import Details

if TYPE_CHECKING:
    import dagster as dg

log = logging.getLogger(__name__)

JOB = "nightly_sync"
# Without these the UI lists the run, but not on its job's page.
IN_THE_UI = {".dagster/repository": "__repository__@rollbook", "dagster/code_location": "rollbook"}
# The user saw how the run ended: the daemon must not retry it behind their back.
NO_RETRY = {"dagster/max_retries": "0"}


class RunFailedError(RollbookError):
    """The job failed. Carries the failing stage's message and the exit code for it."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]


def sync(
    day: date, institution: str = "", *, approve: bool = False, details: Details = Details.none, fresh: bool = False
) -> str:
    """Run the job for one day, as the schedule does; returns the run's id. Raises RunFailedError."""
    from pipelines.partitions import SYNC_TAG, owner_tags

    options = {"approve": approve, "details": details.value, "fresh": fresh}
    tags = {SYNC_TAG: "command", **owner_tags(institution)}
    return _run(tags, institution, partition_key=str(day), options=options)


def backfill(first: date, last: date, institution: str = "", *, confirmed: bool = False) -> str:
    """Run the job for a range of days, as a backfill from the UI does; returns the run's id. Raises RunFailedError."""
    from pipelines.assets import PARTITIONS

    return _run(PARTITIONS.tags(institution, first, last), institution, options={"approve": confirmed})


def _run(tags: dict[str, str], institution: str, *, options: dict[str, Any], partition_key: str | None = None) -> str:
    from pipelines import runs
    from pipelines.dagster_internals import job_origin
    from pipelines.definitions import defs

    run_id = str(uuid4())
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    with runs.open_instance() as instance:
        runs.fail_orphaned_runs(instance)
        runs.mark_as_mine(instance, run_id)
        result = defs.resolve_job_def(JOB).execute_in_process(
            partition_key=partition_key,
            instance=instance,
            raise_on_error=False,
            run_id=run_id,
            tags={**tags, **IN_THE_UI, **NO_RETRY},
            run_config={
                "ops": {"sync": {"config": options}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
        )
        if (run := instance.get_run_by_id(run_id)) is not None:  # the UI's timeline shows only runs with an origin
            instance.run_storage.replace_job_origin(run, job_origin("pipelines.definitions", "rollbook", JOB))
        _notify(instance, run_id, institution)
        if not result.success:
            raise RunFailedError(*runs.failure_reason(instance, run_id))
    return run_id


def _notify(instance: dg.DagsterInstance, run_id: str, institution: str) -> None:
    """Send this run's alert. An error here is logged and never fails the command."""
    from pipelines.notify.alerts import Alerts
    from pipelines.schedules import report_run

    try:
        alerts = Alerts(open_rollbook(institution=institution or None))
        record = instance.get_run_record_by_id(run_id)
        if alerts.enabled and record is not None:
            report_run(instance, alerts, record)
            alerts.deliver()
    except Exception as error:  # noqa: BLE001 - the command reports the sync's own outcome, whatever happens here
        log.warning("The alerts could not be sent (%s); the sync is not affected", type(error).__name__)
