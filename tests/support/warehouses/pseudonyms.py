"""Some nights of a school whose every personal value can be recognised, and the search of a file for the values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rollbook.features.pseudonymous.pseudonymous import Pseudonymous
from rollbook.tables import TABLES
from tests.support import reading
from tests.support.nights import House, line_of, new_house
from tests.support.records import Record, Records, entry, school_class, student, within
from tests.support.wire import faults

# Ids so long and odd that no other number in a file equals an id by chance.
FIRST_ID, STEP = 7_310_554_908_117_003, 104_729
STUDENTS, CLASSES = 24, (501, 502, 503)
VERSION, DAYS = "SELECT id FROM spans.version", "SELECT * FROM spans.days"
# Every name, address, picture and reference id below has such a text, and nothing else has.
WORDS = ("Zaphod", "Beeblebrox", "pupils.example", "REF", "/face", "Slartibart", "slarti.", "nightly")


def ident(number: int) -> int:
    """The id of the n-th student, from 1."""
    return FIRST_ID + number * STEP


def pupil(number: int, word: str = "", **over: Any) -> Record:
    """The n-th student: each value is unique, and changes with `word`."""
    named = {
        "email": f"zaphod{word}.{number}x@pupils.example",
        "name": f"Zaphod{word} O'Beeblebrox-{number}x",
        "first_name": f"Zaphod{word}{number}x",
        "last_name": f"O'Beeblebrox-{number}x{word}",
        "reference_id": f"REF-{number}x",
        "profile_image": f"https://img.school.example/face{word}{number}x.png",
    }
    listed = [entry(class_id=CLASSES[number % 3])] if number % 5 else []
    summary = within("summary", completed_assignments=number % 20, average_score=50.0 + number)
    return student(ident(number), **(named | summary | {"classes": listed} | over))


def pupils(count: int = STUDENTS) -> Records:
    """The first students."""
    return [pupil(n) for n in range(1, count + 1)]


def taught() -> Records:
    """The classes, each with a teacher of its own."""
    teachers = [{"teacher_id": c, "name": f"Slartibart{c}", "email": f"slarti.{c}@school.example"} for c in CLASSES]
    return [school_class(t["teacher_id"], teacher=t) for t in teachers]


class Secrets:
    """Texts that must not be in a pseudonymous file: WORDS, and every id that the service ever sent."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()

    def add(self, records: Iterable[Record]) -> None:
        """Add the values of some records of students."""
        self.numbers |= {r["id"] for r in records}

    def in_bytes(self, path: Path) -> set[str]:
        """The values that a file's bytes hold: as text (UTF-8, UTF-16) and, for ids, as numbers, too, with the
        positions.

        Of an id, the digits and bytes are searched that all ids share: a file may store the rest elsewhere.
        """
        content = path.read_bytes()
        texts = {*WORDS, *(str(n)[:9] for n in self.numbers)}
        seen = {t for t in texts for code in ("utf-8", "utf-16-le", "utf-16-be") if t.encode(code) in content}
        for shared in {n.to_bytes(8, "big")[:5] for n in self.numbers}:
            at = next((at for s in (shared, shared[::-1]) if (at := content.find(s)) >= 0), None)
            if at is not None:
                seen.add(f"{shared.hex()} at byte {at}, in {content[max(at - 32, 0) : at + 32].hex()}")
        return seen

    def in_rows(self, path: Path) -> list[str]:
        """The values that rows, views, macros' texts and comments show."""
        shown = "\n".join(everything(path))
        return [t for t in (*WORDS, *map(str, self.numbers)) if t in shown]


def declare_personal(patch: pytest.MonkeyPatch, table: str, column: str) -> None:
    """Declare that a column is personal."""
    declared = TABLES[table]
    changed = tuple(replace(c, personal=True) if c.name == column else c for c in declared.columns)
    patch.setitem(TABLES, table, replace(declared, columns=changed))


def everything(path: Path) -> Iterator[str]:
    """All that a query can get out of a file."""
    with duckdb.connect(path, read_only=True) as con:
        for of, name in con.execute(
            "SELECT schema_name, table_name FROM duckdb_tables()"
            " UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall():
            yield from map(repr, con.execute(f"SELECT * FROM {of}.{name}").fetchall())
        for about in ("tables", "views", "columns", "functions", "schemas"):
            yield from map(repr, con.execute(f"SELECT * FROM duckdb_{about}() WHERE NOT internal").fetchall())
        for name in ("students", "classes", "student_summaries"):
            yield from map(repr, con.execute(f"SELECT * FROM {name}_as_of(DATE '2027-01-01')").fetchall())
            yield from map(repr, con.execute(f"SELECT * FROM pragma_storage_info('main.{name}')").fetchall())


def pseudonymous(house: House) -> Path:
    """The file under test."""
    return house.warehouse / "rollbook-pseudonymous.duckdb"


def rows(house: House, query: str) -> list[tuple[Any, ...]]:
    """The rows of an analyst's query."""
    return reading.rows(pseudonymous(house), query)


def codes(house: House) -> dict[int, int]:
    """The codes in use, by the students' ids."""
    release = house.rollbook().listener(Pseudonymous).codes.load()
    assert release is not None
    return release.codes


@contextmanager
def lived(secrets: Secrets) -> Iterator[House]:
    """Four nights: details fetched; names changed, with and without more; a leaver, a newcomer, some refused; a return."""
    with new_house(pupils(), taught(), pseudonymous=True) as house:
        secrets.add(pupils())
        house.night(1, details="all")

        renamed = [
            pupil(1, "Q"),
            pupil(2, "Q", **within("summary", completed_assignments=19, average_score=52.0)),
            *pupils()[2:],
        ]
        retaught = taught()
        retaught[0]["teacher"]["name"] = "Slartibart Elsewhere"
        secrets.add(renamed)
        house.night(2, renamed, retaught, details="changed")

        # A student is gone, a student has come, a record is refused (the words are in the reject), a value is refused,
        # a field is unknown.
        odd = pupil(5, name=None) | {f"of {pupil(5)['name']}": 1}
        named = pupil(6, **within("summary", total_assessments="Zaphod"))
        listed = [pupil(1, "Q"), *pupils()[1:3], odd, named, *pupils()[6:], pupil(STUDENTS + 1)]
        secrets.add(listed)
        house.service.on(faults.status(500), path="student/9", times=None)
        house.night(3, listed, details="changed")

        again = [*pupils(), pupil(STUDENTS + 1)]
        secrets.add(again)
        house.night(4, again)
        yield house


def is_current(house: House) -> bool:
    """Whether both files are of one version, by content and by what status says."""
    says = line_of(house.rollbook(), "codes")
    same = rows(house, VERSION) == house.query(VERSION) and rows(
        house, f"SELECT COUNT(*) FROM ({DAYS})"
    ) == house.query(f"SELECT COUNT(*) FROM ({DAYS})")
    assert (says == "rollbook-pseudonymous.duckdb matches the published file") == same
    return same


def current(house: House) -> set[int]:
    """The codes of listed students."""
    return {code for (code,) in rows(house, "SELECT student_id FROM students")}
