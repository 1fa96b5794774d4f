"""The nightly job over a district, run in this process against a new instance."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import Any

import dagster as dg
import pytest

from tests.support.graph import Job, definitions
from tests.support.warehouses.district import District


class DistrictJob(Job):
    """The job of a district. A run is about all institutions, or about the tag's."""

    def run_for(
        self, names: str = "", *, days: tuple[date, ...], tags: Mapping[str, str] | None = None, **options: Any
    ) -> dg.ExecuteInProcessResult:
        """One run of a day or, given several days, of all between the first and the last."""
        with keys_kept():
            named = {"rollbook/institution": names} if names else {}
            return self.execute(str(days[0]), str(days[-1]), options, {**(tags or {}), **named})

    def by_hand(self, name: str, **options: Any) -> dg.ExecuteInProcessResult:
        """A run of an operator's job."""
        with keys_kept():
            return super().by_hand(name, **options)


@contextmanager
def keys_kept() -> Iterator[None]:
    """A variable that a run takes out of the environment is there again for the next run."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.endswith("_KEY")]:
            patch.setenv(name, os.environ[name])
        yield


@contextmanager
def district_job(district: District) -> Iterator[DistrictJob]:
    """The job over a district with the present registry."""
    with definitions(district.environment(), district.root / "instance") as (defs, instance):
        yield DistrictJob(defs, instance)
