"""Who was spoken to, as lists that a night lands: `contacted.csv` as it is then, without what people added.

Rollbook writes these lists itself, so their columns are always the same. There is one for each month in which somebody
was spoken to, since a month that is over changes seldom: what does not change is kept once. The list FILE has no line:
it says that the file was read, so that a month without a list has nobody.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from pathlib import Path

import duckdb

from rollbook.errors import SettingError
from rollbook.landing import own
from rollbook.store.schema import VALID
from rollbook.store.statements import statements
from rollbook.tables import Column, Pseudonymous, Relation
from rollbook.views import contacted
from rollbook.views.catalog import Macro
from rollbook.views.dictionary import Chapter, Described

_CONTACTED = (
    Column("student_id", "BIGINT", "Who was spoken to."),
    Column("spoken_on", "DATE", "The day."),
    Column("rests_until", "DATE", "The student is off the lists of whom to speak to until this day, exclusive."),
    Column("noted_by", "VARCHAR", "Who noted it: the login, where people sign in; NULL if unknown.", personal=True),
)
CONTACTS = Relation(
    "main",
    "contacts",
    "One row per time that a student was spoken to, as contacted.csv had it when the last night landed.",
    _CONTACTED,
    key=("student_id", "spoken_on", "rests_until", "noted_by"),
    nullable=("noted_by",),
    pseudonymous=Pseudonymous.EMPTY,
    tells="periods",
)
CONTACTS_EVER = Relation(
    "history",
    "contacts",
    "Versions: who was spoken to, from the first night that landed it to the first one after it was undone.",
    (*_CONTACTED, *VALID),
    key=("student_id", "spoken_on", "rests_until", "noted_by", "valid_from"),
    nullable=("noted_by",),
    pseudonymous=Pseudonymous.EMPTY,
)

# No list in `own/` can have such a name.
FILE = contacted.FILE
MONTH = "contacted-"
LONGEST_NAME = 200  # of who noted it

sql = statements("rollbook.features.lists")


def is_of_contacts(name: str) -> bool:
    """Whether a landed list is of contacts."""
    return name == FILE or name.startswith(MONTH)


def to_land(root: Path) -> tuple[dict[str, bytes | None], str]:
    """The lists of the warehouse at `root`, and what to correct; none without the file."""
    if not (root / FILE).exists():
        return {}, ""
    months = defaultdict[str, dict[tuple[str, ...], None]](dict)
    try:
        for each in contacted.read(root):
            line = str(each.student_id), str(each.on), str(each.until), each.by[:LONGEST_NAME]
            months[f"{MONTH}{each.on:%Y-%m}"][line] = None
        lists = {FILE: _text([]), **{month: _text([*lines]) for month, lines in months.items()}}
        for content in lists.values():
            own.read(content)
    except SettingError as error:
        return {FILE: None}, error.message
    except own.UnreadableListError as error:
        return {FILE: None}, f"{FILE}, of one month: {error.problem}"
    except OSError as error:
        return {FILE: None}, f"{FILE}: it cannot be read ({error.strerror})"
    return dict[str, bytes | None](lists), ""


def _text(lines: list[tuple[str, ...]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([own.CONTACTS, *lines])
    return text.getvalue().encode()


def fill(con: duckdb.DuckDBPyConnection) -> None:
    """Make the tables of an open file from `contact_runs`: which list counts from when to when."""
    for statement in con.extract_statements(sql("contacts")):
        con.execute(statement)


def chapter(text: str) -> Chapter:
    """The lists' chapter of the data dictionary, with this text and the table."""
    columns = [(f"`{c.name}`", c.type, c.comment) for c in CONTACTS.columns]
    return Chapter(text, [Described(CONTACTS.name, CONTACTS.comment, CONTACTS.key, columns)])


def contacts_as_of(version: str) -> Macro:
    """The macro, for a version of the file."""
    shown = "student_id, spoken_on, rests_until, noted_by"
    return Macro(
        "contacts_as_of",
        ("day",),
        "The rows of contacts on the last landed day on or before a day; an error before the first landed day.",
        sql("as_of", relation="contacts", shown=shown, version=version),
    )
