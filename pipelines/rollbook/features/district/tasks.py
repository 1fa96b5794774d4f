"""The work for one institution of a district: here, or as a task on another machine.

A task gets a text and returns one, both JSON, since it may run in another process. It finds the warehouse's folder
under the same path, and reads no environment and no registry: the settings are in the text, without the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import duckdb
import msgspec

from rollbook.assembly import assemble
from rollbook.errors import RollbookError, SettingError
from rollbook.features.district.settings import DUCKDB
from rollbook.night import past
from rollbook.night.past import always, within_hold
from rollbook.night.writing import writer_lock
from rollbook.settings import Settings, restored, secret_fields
from rollbook.store import schema
from rollbook.store.database import connect, differences, names
from rollbook.store.history.engine import History
from rollbook.store.schema import ACTIVE_DAYS, OF_LISTS, TERMS, THRESHOLDS, VERSION
from rollbook.tables import Declared
from rollbook.util import files

Work = Callable[[str], str]

EXPIRED = "the history of some of its days is in its published file alone, since their snapshots have expired"
NO_DAY = "its lake holds no day, though it has published"
OTHER_DAYS = "its published file is of other days than its lake: its next sync brings it up to date"


class Recomputed(msgspec.Struct):
    """How a history that was computed again differs from the published one, by table: the rows that the published file
    lacks, and those that it should not have. Or why it was not compared.
    """

    differences: dict[str, tuple[int, int]] = {}
    left_out: str = ""
    is_empty: bool = False


class Rebuilt(msgspec.Struct):
    """The reason why an institution was not rebuilt, with the command's exit code; empty if it was."""

    error: str = ""
    exit_code: int = 0


def run(engine: str, work: Work, tasks: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Do `work` for each institution: here, one after the other, or as tasks of Spark. Yields the name and the result.

    `engine` is `duckdb`, `sail` or a Spark Connect address. Raises SettingError without its packages, and EngineError.
    """
    if engine == DUCKDB:
        yield from ((name, work(text)) for name, text in tasks.items())
        return
    try:
        from rollbook.features.district import spark
    except ImportError as error:
        raise SettingError(
            f"The engine {engine} needs packages that are not installed: run `pip install 'rollbook[engines]'`"
        ) from error
    yield from spark.run(engine, work, tasks)


def given(settings: Settings, **more: Any) -> str:
    """The text for a task about an institution: its settings, without secrets, and what else the task needs."""
    values = settings.model_dump(mode="json", exclude=set(secret_fields()), exclude_none=True)
    return msgspec.json.encode({"settings": values | {"warehouse": str(settings.common_path)}, **more}).decode()


def recompute(text: str) -> str:
    """Compute an institution's history again from its snapshots, and compare it with what it has published. The writer
    lock is held meanwhile; nothing is changed.
    """
    try:
        result = _recompute(restored(msgspec.json.decode(text)["settings"]))
    except RollbookError as error:
        result = Recomputed(left_out=error.message)
    return msgspec.json.encode(result).decode()


def _recompute(settings: Settings) -> Recomputed:
    rollbook = assemble(settings)
    warehouse, lake = rollbook.warehouse, rollbook.lake
    if not warehouse.build.exists():  # it never synced
        return Recomputed(is_empty=True)
    with writer_lock(warehouse.build, rollbook.clock()), files.aside(warehouse.build) as folder:
        days = {day: record.digest for day, record in lake.days().items()}
        if rollbook.landings.expired_days():
            return Recomputed(left_out=EXPIRED)
        if not days:
            return Recomputed(left_out=NO_DAY) if warehouse.published_file.exists() else Recomputed(is_empty=True)
        if warehouse.merged_days() != days:
            return Recomputed(left_out=OTHER_DAYS)
        again, published = folder / "again.duckdb", warehouse.published_file
        with connect(again, scratch=warehouse.scratch, published=published) as con:
            schema.ensure(con, schema.declared(warehouse.declared))
            History(con, lake).rebuild()
            return Recomputed(differences=_differences(con, warehouse.declared))


def _differences(con: duckdb.DuckDBPyConnection, declared: Declared) -> dict[str, tuple[int, int]]:
    numbers_of = {}
    for relation in schema.declared(declared):
        if relation.schema == "ops" or relation in (THRESHOLDS, TERMS, ACTIVE_DAYS, VERSION, *OF_LISTS):
            continue
        full = f"{relation.schema}.{relation.name}"
        mine, theirs = (f"SELECT {names(relation.columns)} FROM {of}{full}" for of in ("", "published."))
        if any(numbers := differences(con, mine, theirs)):
            numbers_of[full.removeprefix("main.")] = numbers
    return numbers_of


def rebuild(text: str) -> str:
    """Rebuild an institution's warehouse from what was landed, as `rollbook rebuild` does, and publish it."""
    task = msgspec.json.decode(text)
    try:
        past.rebuild(assemble(restored(task["settings"])).writer(), confirm=always if task["yes"] else within_hold)
        done = Rebuilt()
    except RollbookError as error:
        done = Rebuilt(error.message, error.exit_code)
    return msgspec.json.encode(done).decode()
