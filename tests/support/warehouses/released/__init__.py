"""A warehouse of each release, as its version left the folder: every later version has to open it.

`make released` plays a school with the present version, and keeps in this folder, under the version's number, the
warehouse (`.tar.xz`) and what its readers had (`.json`). Then the school goes on, and what readers have next is kept as
well. Nothing in it is of this machine, or of anybody.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from rollbook.night.discard import undo_discard
from tests.support.nights import SET_OF, House, approve_held, folder, night
from tests.support.records import Records, classes, entry, student, students
from tests.support.wire.service import Service

HERE = Path(__file__).parent
RELEASES = sorted(path.name.removesuffix(".tar.xz") for path in HERE.glob("*.tar.xz"))
SETTINGS: dict[str, Any] = {"keep_days": 5, "pseudonymous": True}

# What readers have of a table, as JSON has it.
Told = dict[str, dict[str, Any]]

TABLES = (
    *(f"{schema}.{table}" for schema in ("main", "history") for table in (*SET_OF, "institution", "own_year_groups")),
    "main.changes",
)
# Of these, the part that does not depend on the minute.
OPS = {"ops.syncs": ["snapshot_date", "landing", "proven", "verdict", "reason", "requests", "bytes_received"]}

# Nights of the school: students by night. Night 2 has a second landing, 4 is taken back, 5 is held, 7 is unproven.
LISTED: dict[int, Records] = {
    1: students(14),
    2: [student(1, name="Zoë O'Néill &amp; Co"), *students(13, first=2)],
    3: [*students(12), student(14, summary=None), student(15)],
    4: [student(1, name="Wrong"), *students(14, first=2)],
    5: students(4),
    6: [student(1, classes=[entry(class_id=502), entry(class_id=503)]), *students(14, first=2)],
    7: [*students(15), student(7, name="Listed Twice")],
    8: [student(16, registration_date="0000-00-00"), *students(13), student(15)],
}
SECOND = [student(2, classes=None, name="Given Later"), student(4, classes=[]), *students(10, first=5), student(1)]


def service_of(number: int) -> Service:
    """The service on a night."""
    return Service(LISTED[number], classes(3))


def go_on(house: House) -> None:
    """What the school does next: it approves what is held, puts back what was discarded, and syncs a night."""
    approve_held(house.rollbook(), night(5))
    undo_discard(house.rollbook().writer(), night(4))
    house.night(8, LISTED[8])


def told(house: House, wanted: Told | None = None) -> Told:
    """What readers have of each table; of columns that are `wanted`, if that is given."""
    with duckdb.connect(house.published, read_only=True) as con:

        def read(table: str, columns: list[str]) -> dict[str, Any]:
            answer = con.execute(f"SELECT {', '.join(columns or ['*'])} FROM {table} ORDER BY ALL")
            named = [column[0] for column in answer.description or ()]
            return {"columns": named, "rows": json.loads(json.dumps(answer.fetchall(), default=str))}

        if wanted is not None:
            return {table: read(table, each["columns"]) for table, each in wanted.items()}
        return {table: read(table, OPS.get(table, [])) for table in (*TABLES, *OPS)}


def facts(release: str) -> dict[str, Told]:
    """What readers had of a release's warehouse: as it was `kept`, and after it had `gone_on`."""
    said: dict[str, Told] = json.loads((HERE / f"{release}.json").read_text("utf-8"))
    return said


@contextmanager
def opened(release: str) -> Iterator[House]:
    """The warehouse of a release, the night after it was kept."""
    with folder() as root, service_of(8) as service, tarfile.open(HERE / f"{release}.tar.xz") as archive:
        archive.extractall(root, filter="tar")  # which keeps the modes
        yield House(root / "warehouse", service, **SETTINGS).at(8)
