"""The nightly job over a district, run in this process against an instance of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import Any

import dagster as dg
import pytest

from tests.support.graph import Job, loaded
from tests.support.warehouses.district import District


class DistrictJob(Job):
    """The job of a district. A run is about some places: institutions, or batches."""

    def run_for(
        self, *places: str, days: tuple[date, ...], tags: Mapping[str, str] | None = None, **options: Any
    ) -> dg.ExecuteInProcessResult:
        """One run: of a place's day or, given several places or days, of all between the first and the last of each.

        What a run takes out of its process's environment is there again for the next one.
        """
        first, last = f"{days[0]}|{places[0]}", f"{days[-1]}|{places[-1]}"
        span = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        one = first == last
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.endswith("_KEY")]:
                patch.setenv(name, os.environ[name])
            return self.defs.resolve_job_def("nightly_sync").execute_in_process(
                partition_key=first if one else None,
                instance=self.instance,
                raise_on_error=False,
                tags={**({} if one else span), **(tags or {})},
                run_config={
                    "resources": {"options": {"config": options}},
                    "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                },
            )

    def tags(self, result: dg.ExecuteInProcessResult) -> Mapping[str, str]:
        """A run's tags, as they are when it is over."""
        (run,) = self.instance.get_runs(dg.RunsFilter([result.run_id]))
        return run.tags


@contextmanager
def district_job(district: District) -> Iterator[DistrictJob]:
    """The job over a district, as its registry is now."""
    home = district.root / "instance"
    home.mkdir(exist_ok=True)
    quiet = {"telemetry": {"enabled": False}}
    with (
        loaded(district.environment()) as module,
        dg.DagsterInstance.local_temp(str(home), overrides=quiet) as instance,
    ):
        yield DistrictJob(module.defs, instance)
