"""A district: several made-up schools on loopback, each with a key of its own, on one host or on several.

Each school is a `Service` of its own that nobody serves directly: the `Host` does, so that a test can give faults to a
school (`district["ash"].on(...)`) or to all of a host, and see how many requests a host got at a time.

    with new_district(["ash", "birch"], ["cedar"]) as district:  # ash and birch share a host
        district["ash"].students = students(30)
        run_command("district", "sync", env=district.environment())
        district.house("ash").tables()
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, time
from multiprocessing import forkserver
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from rollbook import sandbox, settings
from rollbook.features.district.build import Built, build
from rollbook.features.district.nights import Institutions, pause
from rollbook.features.district.worker import NightOutcome
from rollbook.institutions import Registry
from tests.support.nights import House, folder, night
from tests.support.processes.commands import dagster_home
from tests.support.records import classes, school_class, students
from tests.support.wire.service import Asked, Reply, Service


class School(Service):
    """A school of a host: records, faults and requests. `url` is the host's."""

    def __init__(self, name: str, number: int) -> None:
        key = f"k3y-of-{name}"
        super().__init__(students(5), [school_class(501)], key=key, school={"id": number, "name": name, "key": name})
        self.name = name
        self.variable = f"{name.upper().replace('-', '_')}_KEY"


class Host(Service):
    """One address with some schools behind it. A stranger's key gets a 401."""

    def __init__(self, schools: Sequence[School]) -> None:
        super().__init__(key="a key of nobody")
        self.schools = {school.key: school for school in schools}
        self.at_once = self.most_at_once = 0

    def __enter__(self) -> Host:
        super().__enter__()
        for school in self.schools.values():
            school.url = self.url
        return self

    def bent(self, request: Asked) -> Reply:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        reply = super().bent(request)
        sleep(reply.delay)
        self.at_once -= 1
        return replace(reply, delay=0.0)

    def answer(self, request: sandbox.ReceivedRequest) -> sandbox.Reply:
        school = self.schools.get(request.headers.get("x-api-key", ""))
        if school is None:
            return super().answer(request)
        assert isinstance(request, Asked)
        return school.bent(request)


class InstitutionHouse(House):
    """The house of an institution, with a warehouse in the district's."""

    def __init__(self, common: Path, school: School) -> None:
        self.common = common
        super().__init__(common / school.name, school, institution=school.name, api_key=school.key)

    def _given(self) -> dict[str, Any]:
        return {**super()._given(), "warehouse": self.common}


class District:
    """The schools by name, their hosts, and the folder with the registry and the warehouses."""

    def __init__(self, root: Path, hosts: Sequence[Sequence[str]]) -> None:
        self.root = root
        self.warehouse = root / "warehouse"
        self.registry = root / "institutions.toml"
        names = [name for host in hosts for name in host]
        self.schools = {name: School(name, 100 + number) for number, name in enumerate(names)}
        self.hosts = [Host([self.schools[name] for name in host]) for host in hosts]

    def __getitem__(self, name: str) -> School:
        return self.schools[name]

    def write(self, over: Mapping[str, Mapping[str, str]] | None = None, *, defaults: str = "", top: str = "") -> None:
        """Write the registry. `over` has lines of TOML by institution and setting, `defaults` the lines of all."""
        lines = [top, "[defaults]", "retry_seconds = 1", 'first_date = "2026-08-01"', defaults]
        for name, school in self.schools.items():
            given = {"base_url": f'"{school.url}"', "api_key": f'{{ env = "{school.variable}" }}'}
            table = {**given, **(over or {}).get(name, {})}
            lines += ["", f"[{name}]", *(f"{key} = {value}" for key, value in table.items())]
        self.registry.write_text("\n".join(lines) + "\n")

    def pause(self, name: str, reason: str) -> None:
        """Pause an institution, as `rollbook district pause` does."""
        pause(self.warehouse / settings.DISTRICT, name, reason)

    def rename(self, was: str, now: str) -> None:
        """Give an institution another name in the registry."""
        self.registry.write_text(self.registry.read_text().replace(f"[{was}]", f"[{now}]"))

    def move(self, was: str, now: str) -> InstitutionHouse:
        """Give an institution and the folder another name; returns the house."""
        self.rename(was, now)
        (self.warehouse / was).rename(self.warehouse / now)
        house = self.house(was)
        house.warehouse, house.over = self.warehouse / now, {**house.over, "institution": now}
        return house

    def environment(self) -> dict[str, str]:
        """The variables that a command needs: where the registry and the warehouses are, and all keys."""
        return {
            "ROLLBOOK_INSTITUTIONS": str(self.registry),
            "ROLLBOOK_WAREHOUSE": str(self.warehouse),
            "ROLLBOOK_CACHE_MINUTES": "0",
            "DAGSTER_HOME": str(dagster_home(self.root / "dagster_home")),
            **{school.variable: school.key for school in self.schools.values()},
        }

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """Put the district's variables into this process's environment."""
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("ROLLBOOK_")]:
                patch.delenv(name)
            for name, value in self.environment().items():
                patch.setenv(name, value)
            yield

    def house(self, name: str) -> InstitutionHouse:
        """The house of an institution. The service shows the house's clock from then on, not today's date."""
        return InstitutionHouse(self.warehouse, self.schools[name])

    def play(self, now: datetime) -> None:
        """Let every school show a moment."""
        for school in self.schools.values():
            school.now = lambda: now

    def night(
        self, number: int, *, only: Sequence[str] = (), jobs: int = 2, **arguments: Any
    ) -> dict[str, NightOutcome]:
        """The district's run of a night, counted from 1, at a quarter past two."""
        return self.institutions(number, only=only, jobs=jobs).sync(**arguments)

    def institutions(self, number: int, *, only: Sequence[str] = (), jobs: int = 2) -> Institutions:
        """All institutions on a night, or some."""
        now = datetime.combine(night(number), time(2, 15), UTC)
        self.play(now)
        return Institutions(self.known, tuple(only), jobs, now)

    @property
    def known(self) -> Registry:
        """The registry, as a command reads it."""
        registry = settings.registry()
        assert registry is not None
        return registry

    def build(self) -> Built:
        """Build the files of all institutions."""
        return build(self.warehouse / settings.DISTRICT, self.known)

    def left_by_builds(self) -> list[str]:
        """The files in the folder that builds work in, apart from the lock: none once a build has ended."""
        folder = self.warehouse / "district" / "_build"
        return [p.name for p in folder.rglob("*") if p.is_file() and p.name != "lock"]

    def files_with_a_key(self) -> list[Path]:
        """The files in the district's folder, Dagster's own among them, that hold the key of a school."""
        keys = [school.key.encode() for school in self.schools.values()]
        files = [path for path in self.root.rglob("*") if path.is_file()]
        return [path for path in files if any(key in path.read_bytes() for key in keys)]

    def asked(self) -> dict[str, int]:
        """How many requests each school has got so far."""
        return {name: len(school.requests) for name, school in self.schools.items()}


@contextmanager
def new_district(*hosts: str | Sequence[str]) -> Iterator[District]:
    """A district that is served, with a registry and the variables in the environment.

    Each argument is a host: the names of the schools, or a single name.
    """
    with folder() as root, ExitStack() as stack:
        district = District(root, [[host] if isinstance(host, str) else host for host in hosts])
        for host in district.hosts:
            stack.enter_context(host)
        district.write()
        stack.enter_context(district.in_environment())
        stop_forkserver()
        stack.callback(stop_forkserver)
        yield district


@contextmanager
def two_schools(*others: str) -> Iterator[District]:
    """Ash and birch, of one night each, which share the students' ids; other schools never synced."""
    with new_district(["ash", "birch"], *others) as district:
        district.house("ash").night(1, students(4), classes(1))
        district.house("birch").night(1, students(3), classes(1))
        yield district


@contextmanager
def copied(played: District, folder: Path) -> Iterator[District]:
    """The same district with warehouse and registry copied into another folder, as long as the block lasts."""
    was = played.warehouse, played.registry
    played.warehouse, played.registry = folder / "warehouse", folder / "institutions.toml"
    shutil.copytree(was[0], played.warehouse, symlinks=True)
    shutil.copy(was[1], played.registry)
    with played.in_environment():
        yield played
    played.warehouse, played.registry = was


def stop_forkserver() -> None:
    """End the process that tests fork others from: it keeps the environment that it was started with."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
