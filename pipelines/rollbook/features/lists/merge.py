"""Makes the relations of the school's own lists from what was landed.

`spans.own_days` says which list counts on which day, `spans.own_lists` and `spans.own_lines` what each one says. They
are kept in the file, so that days stay after they expire. From them and from the history of students and classes, a
publish makes `history.own_<list>`, `main.own_<list>`, `main.students_own` and the contacts: all, since they are small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date

import duckdb
import msgspec
import pyarrow as pa

from rollbook.features.lists import contacts
from rollbook.features.lists.folder import UNSEEN
from rollbook.landing import own
from rollbook.landing.manifest import Manifest
from rollbook.landing.raw import RawStore
from rollbook.store.database import literal, quoted
from rollbook.store.schema import VALID
from rollbook.store.statements import statements
from rollbook.tables import TABLES
from rollbook.views import catalog

sql = statements("rollbook.features.lists")

# Of a day: the digest of each list, None for a list that could not be read; an empty name says that the night saw which
# lists there are.
Day = dict[str, str | None]
SEEN = ""


@dataclass(frozen=True)
class Shown:
    """A list as its relations show it: the key column with its type, the columns now, and all that it ever had. Without
    `columns`, it has ended.
    """

    name: str
    subject: str
    columns: tuple[str, ...]
    ever: tuple[str, ...]


# By whom a list is about: the key of its relations, with the type.
KEYS = {
    "students": ("student_id", "BIGINT"),
    "classes": ("class_id", "BIGINT"),
    "teachers": ("teacher_email", "VARCHAR"),
}
ABOUT_KEY = {"students": "Student", "classes": "Class", "teachers": "Teacher"}


def fill(con: duckdb.DuckDBPyConnection, version: str, public: Set[tuple[str, str]] | None = None) -> None:
    """Make the lists' relations in an open file of this `version`. `public` are the columns, by list, that the
    pseudonymous file has, too; None for those that it had.
    """
    if public is None:
        told = "SELECT list, list_column FROM ops.own_columns WHERE is_public"
        public = {(name, column) for name, column in con.execute(told).fetchall()}
    con.execute("DELETE FROM ops.own_columns")
    for table in ("ops.list_findings", "history.contacts", "main.contacts"):
        con.execute(f"DELETE FROM {table}")
    if not con.execute("SELECT 1 FROM spans.own_lists LIMIT 1").fetchone():
        return
    for statement in con.extract_statements(
        sql("own_rows", kinds=_kinds(), key_of=_key_of(), contacted=contacts.FILE, month=contacts.MONTH)
    ):
        con.execute(statement)
    con.execute(sql("findings", contacted=contacts.FILE))
    contacts.fill(con)
    shown = _shown(con)
    for each in shown:
        _create(con, each, version)
    _create_students_own(con, [each for each in shown if each.subject == "students" and each.columns], public)


def bring_up(con: duckdb.DuckDBPyConnection, raw: RawStore, counted: Mapping[date, Sequence[Manifest]]) -> None:
    """Bring what an open file knows of the lists up to the counted landings of each day."""
    landed = {row[0] for row in con.execute("SELECT snapshot_date FROM spans.days").fetchall()}
    have = dict[date, Day]()
    for day, name, digest in con.execute("SELECT day, list, digest FROM spans.own_days").fetchall():
        have.setdefault(day, {})[name] = digest
    due = {day: folded(landings) for day, landings in counted.items() if day in landed}
    if not any(day.keys() - {SEEN} for day in (*have.values(), *due.values())):
        due = dict.fromkeys(due, Day())  # no list was ever there
    stale = [day for day, said in have.items() if day not in landed or due.get(day, said) != said]
    fresh = {day: said for day, said in due.items() if said and have.get(day) != said}
    for day in stale:
        con.execute("DELETE FROM spans.own_days WHERE day = $1", [day])
    rows = [(day, name, digest) for day, said in fresh.items() for name, digest in said.items()]
    _insert(con, "own_days", ("day", "list", "digest"), rows)
    known = {row[0] for row in con.execute("SELECT digest FROM spans.own_lists").fetchall()}
    for day in fresh:
        for manifest in counted[day]:
            known |= _keep_lists(con, raw, manifest, known)
    if stale:
        for table in ("own_lists", "own_lines"):
            con.execute(
                f"DELETE FROM spans.{table} WHERE digest NOT IN (SELECT digest FROM spans.own_days WHERE digest <> '')"
            )


def folded(landings: Iterable[Manifest]) -> Day:
    """What a day's counted landings, in their order, say of the lists: the last that saw them; a list that it could not
    read is as an earlier landing of the day had it. The folder and the contacts are seen each by itself.
    """
    day = Day()
    for manifest in landings:
        if manifest.own is not None:
            said = {name: digest or day.get(name) for name, digest in manifest.own.items() if name != UNSEEN}
            sees_folder, sees_contacts = UNSEEN not in manifest.own, bool(manifest.own.get(contacts.FILE))
            stay = {
                name: digest
                for name, digest in day.items()
                if not (sees_contacts if contacts.is_of_contacts(name) else sees_folder)
            }
            day = {**stay, **({SEEN: ""} if sees_folder else {}), **said}
    return day


def _keep_lists(con: duckdb.DuckDBPyConnection, raw: RawStore, manifest: Manifest, known: set[str]) -> set[str]:
    """Keep what a landing's lists say, but for those that are known; returns the digests of the others."""
    if not {digest for digest in (manifest.own or {}).values() if digest} - known:
        return set()
    landing, kept = raw.open(manifest), set[str]()
    for body, content in landing.contents(b for b in landing.pages() if b.kind == own.OWN and b.sha256 not in known):
        listed = own.read(content)
        subject = "teachers" if listed.about == ("teacher_email",) else own.ABOUT[listed.about[0]][0]
        _insert(
            con,
            "own_lists",
            ("digest", "subject", "columns"),
            [(body.sha256, subject, msgspec.json.encode(listed.columns).decode())],
        )
        lines = [
            (
                body.sha256,
                line.number,
                rank,
                about,
                who,
                msgspec.json.encode(line.values, order="deterministic").decode(),
            )
            for line in listed.lines
            for rank, (about, who) in enumerate(zip(listed.about, line.who, strict=True), start=1)
        ]
        _insert(con, "own_lines", ("digest", "line", "rank", "about", "who", "cells"), lines)
        kept.add(body.sha256)
    return kept


def _insert(
    con: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]
) -> None:
    if rows:
        con.register("fresh", pa.table({name: [row[n] for row in rows] for n, name in enumerate(columns)}))
        con.execute(f"INSERT INTO spans.{table} BY NAME SELECT * FROM fresh")
        con.unregister("fresh")


def _kinds() -> list[tuple[str, str, str]]:
    return [(about, table, column) for about, (table, column) in own.ABOUT.items()]


def _key_of() -> dict[str, str]:
    return {table: TABLES[table].parent_key for table, _ in own.ABOUT.values()}


def _shown(con: duckdb.DuckDBPyConnection) -> list[Shown]:
    """The lists, by name; what their relations show is as the newest landing of each says."""
    shown = []
    versions = con.execute("""
        SELECT r.list, LIST((l.subject, l.columns) ORDER BY r.first_day DESC), ARG_MAX(r.digest, r.first_day) = ''
        FROM own_runs AS r LEFT JOIN spans.own_lists AS l USING (digest)
        GROUP BY r.list ORDER BY r.list
    """).fetchall()
    for name, each, has_ended in versions:
        told = [(subject, msgspec.json.decode(columns, type=list[str])) for subject, columns in each if subject]
        subject, columns = told[0]
        ever = dict.fromkeys(column for of, had in told if of == subject for column in had)
        shown.append(Shown(name, subject, () if has_ended else tuple(columns), tuple(ever)))
    return shown


def _create(con: duckdb.DuckDBPyConnection, shown: Shown, version: str) -> None:
    """Create a list's relations, with comments."""
    name, (key, kind), file = f"own_{shown.name}", KEYS[shown.subject], f"own/{shown.name}.csv"
    table, columns = quoted(name), [quoted(column) for column in shown.ever]
    values = [f"JSON_EXTRACT_STRING(cells, {literal(_path(c))}) AS {quoted(c)}" for c in shown.ever]
    rows = ", ".join((f"CAST(id AS {kind}) AS {key}", *values, "valid_from", "valid_to"))
    of_list = f"list = {literal(shown.name)} AND subject = {literal(shown.subject)}"
    made = f"SELECT {rows} FROM own_rows WHERE {of_list} ORDER BY {key}, valid_from"
    con.execute(f"CREATE TABLE history.{table} AS {made}")
    now = ", ".join((key, *map(quoted, shown.columns)))
    con.execute(f"CREATE VIEW main.{table} AS SELECT {now} FROM history.{table} WHERE valid_to IS NULL")
    macro = quoted(f"{name}_as_of")
    ever = ", ".join((key, *columns))
    con.execute(sql("as_of", relation=name, shown=ever, version=version))
    about, meanings = f"The school's own list {file}", {c: f"Column {c} of {file}." for c in shown.ever}
    subject = (key, f"{ABOUT_KEY[shown.subject]}, as the list's first column says.")
    catalog.comment(
        con,
        "TABLE",
        f"history.{table}",
        f"Versions: {about}.",
        [subject, *((quoted(c), meaning) for c, meaning in meanings.items()), *((c.name, c.comment) for c in VALID)],
    )
    catalog.comment(
        con,
        "VIEW",
        f"main.{table}",
        f"{about}: one row per {ABOUT_KEY[shown.subject].lower()}. Key: {key}.",
        [subject, *((quoted(c), meanings[c]) for c in shown.columns)],
    )
    as_of = f"The rows of {name} on the last landed day on or before a day; an error before the first landed day."
    con.execute(f"COMMENT ON MACRO TABLE main.{macro} IS {literal(as_of)}")


def _create_students_own(con: duckdb.DuckDBPyConnection, lists: Sequence[Shown], public: Set[tuple[str, str]]) -> None:
    """Create the view of all students with all columns of the lists about students."""
    if not lists:
        return
    names = column_names((each.name, column) for each in lists for column in each.columns)
    rows = [(shown, *place, place in public) for place, shown in names.items()]
    con.executemany("INSERT INTO ops.own_columns VALUES ($1, $2, $3, $4)", rows)
    columns = [
        f"{quoted(f'own_{name}')}.{quoted(column)} AS {quoted(shown)}" for (name, column), shown in names.items()
    ]
    joins = [f"LEFT JOIN main.{quoted(f'own_{each.name}')} USING (student_id)" for each in lists]
    query = f"SELECT student_id, {', '.join(columns)} FROM main.students {' '.join(joins)}"
    comments = [(quoted(shown), f"Column {column} of own/{name}.csv.") for (name, column), shown in names.items()]
    described = catalog.view("students_own")
    catalog.create_view(con, "main", described.name, query, described.described, [*described.columns, *comments])


def column_names(columns: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The column of `students_own` for each list and column: one that several lists have also names the list."""
    every = [*columns]
    times = Counter(column for _, column in every)
    names, taken = dict[tuple[str, str], str](), {"student_id"}
    for name, column in every:
        shown = column if times[column] == 1 else f"{name}_{column}"
        while shown in taken:
            shown += "_"
        taken.add(shown)
        names[name, column] = shown
    return names


def _path(column: str) -> str:
    """A column in the cells of a line, as a path in JSON."""
    return f'$."{column}"'
