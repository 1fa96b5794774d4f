"""A school's records in a notebook: `rollbook.open()`, and pandas DataFrames from there.

    book = rollbook.open()                      # the warehouse that .env names; demo=True for the demo's
    book.tables()                               # what there is, and what a row is
    book.to_watch()                             # whom to watch
    book.table("students", on="2026-09-01")     # as it was on a day
    book.history("student_summaries", student_id=7)
    book.changes(since="2026-09-01")
    book.thresholds(completion_below=40)        # what the reasons did in the past, and what others would have done
    book.spoken_to()                            # the two weeks before and after, beside others like them
    book.student(7)
    book.query("SELECT * FROM roster WHERE class_id = ?", [501])
    book.lines(frame)                           # a line over the days of the first column for each other one
    book.arrow().table("roster")                # the same as an Arrow table; book.polars() for Polars

Each call opens the published file read-only, reads, and closes it. So a notebook that stays open shows the newest
night, and locks nobody out. Each call is a line in the access log, without the values that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollbook import settings
from rollbook.errors import ArgumentError
from rollbook.reading import access, contacts
from rollbook.reading.query import query_of, read_arrow, run_query
from rollbook.reading.thresholds import report
from rollbook.store.published import DEMO_FOLDER, PUBLISHED
from rollbook.tables import TABLES
from rollbook.util.text import listed
from rollbook.views import catalog

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from rollbook.features.notebook.drawing import Drawing

# What there is to read, with the first sentence of its comment.
_TABLES = """
SELECT schema_name AS schema, name, REGEXP_EXTRACT(comment, '^(.*?\\.)( |$)', 1) AS a_row, estimated_size AS rows
FROM (
    SELECT schema_name, table_name AS name, comment, estimated_size FROM duckdb_tables() WHERE NOT internal
    UNION ALL
    SELECT schema_name, view_name, comment, NULL FROM duckdb_views() WHERE NOT internal
)
WHERE schema_name IN ('main', 'history', 'snapshots', 'ops')
ORDER BY schema_name = 'main' DESC, schema_name, name
"""
_AS_OF = "_as_of"


def open(path: Path | str | None = None, *, demo: bool = False, institution: str | None = None) -> Book:  # noqa: A001
    """Open a school's records for reading: those of the warehouse at `path`, by default the one that `.env` or the
    environment names. `demo` opens the demo's, `institution` one of a registry's.

    Raises SettingError for a setting that is malformed, and, at the first question, NothingLandedError before the first
    night.
    """
    if path is not None:
        given = Path(path).expanduser().absolute()
        return Book(given if given.is_dir() else given.parent)
    if demo:
        return Book(settings.common_path() / DEMO_FOLDER)
    if institution is None and settings.is_of_all():
        raise ArgumentError(
            "This warehouse has several institutions: name one of the institutions, as institution='ash'"
        )
    return Book(settings.place(institution).warehouse_path)


def _to_pandas(rows: pa.Table) -> Any:
    """A DataFrame whose columns keep their types where values are missing."""
    import pandas as pd
    import pyarrow as pa

    kinds = {
        pa.int64(): pd.Int64Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.bool_(): pd.BooleanDtype(),
        pa.string(): pd.StringDtype("pyarrow"),
        pa.date32(): pd.ArrowDtype(pa.date32()),
    }
    return rows.to_pandas(types_mapper=kinds.get)


@dataclass(frozen=True)
class Book:
    """A school's records as they are published, for reading. Each answer is a pandas DataFrame: whole numbers, truth
    values and dates may be missing (`<NA>`) without becoming something else.

    A question that cannot be answered raises ArgumentError, which says what to ask instead.
    """

    warehouse: Path
    _form: Callable[[pa.Table], Any] = _to_pandas

    def arrow(self) -> Book:
        """The same book, whose answers are Arrow tables."""
        return replace(self, _form=lambda rows: rows)

    def polars(self) -> Book:
        """The same book, whose answers are Polars DataFrames. Polars must be installed."""
        import polars

        return replace(self, _form=polars.from_arrow)

    def tables(self) -> Any:
        """One row per table or view: its schema, its name, and what a row means."""
        return self.query(_TABLES)

    def table(self, name: str, on: date | str | None = None) -> Any:
        """The rows of a table or view, such as `students`, `roster` or `ops.syncs`; `tables()` says what a row is.

        `on` a day: as it was on the last landed day up to that day, for the current tables and `students_to_watch`.
        """
        if name not in (known := self._names()):
            alike = sorted((each for each in known if name in each and not each.endswith(_AS_OF)), key=len)
            hint = f": did you mean {' or '.join(alike[:3])}?" if alike else "; `tables()` lists all"
            raise ArgumentError(f"There is no table or view {name!r}{hint}")
        if on is None:
            return self._ask(name)
        there = sorted(each.removesuffix(_AS_OF) for each in known if each.endswith(_AS_OF))
        if name not in there:
            raise ArgumentError(f"{name} cannot be read as of a day: choose from {', '.join(there)}")
        view = catalog.view(name) if name in catalog.VIEWS else None
        order = "" if view is None else view.order_by(dict(view.columns))
        return self._ask(f"FROM {name}{_AS_OF}($on){order}", {"on": _day(on)})

    def own(self, name: str, on: date | str | None = None) -> Any:
        """The rows of a list of the school's own, such as `year_groups`, of the file `own/year_groups.csv`; with `on`,
        as it was on the last landed day up to that day.
        """
        if f"own_{name}" not in (known := self._names()):
            lists = sorted(
                each.removeprefix("own_") for each in known if each.startswith("own_") and f"{each}{_AS_OF}" in known
            )
            there = f"choose from {listed(lists)}" if lists else "there is none yet: save one as CSV in own/ and sync"
            raise ArgumentError(f"There is no list {name!r} of the school's own: {there}")
        return self.table(f"own_{name}", on)

    def history(self, name: str, **key: int) -> Any:
        """The versions of a table's records, a row each, with `valid_from` and `valid_to` (missing: still valid).

        `key` chooses records: `history("student_classes", student_id=7)`.
        """
        if name not in TABLES:
            raise ArgumentError(f"There is no history of {name}: choose from {', '.join(TABLES)}")
        ids = TABLES[name].key
        if unknown := sorted(key.keys() - {*ids}):
            raise ArgumentError(f"{', '.join(unknown)} is not part of the key of {name}: {', '.join(ids)}")
        chosen = " AND ".join(f"{column} = ${column}" for column in key) or "TRUE"
        return self._ask(f"FROM history.{name} WHERE {chosen} ORDER BY {', '.join((*ids, 'valid_from'))}", key)

    def changes(self, since: date | str, until: date | str | None = None) -> Any:
        """What changed on the landed days from `since` to `until` (default: the newest), a row for each changed field,
        and for each record that was added, removed or came back.
        """
        days = {"since": _day(since), "until": date.max if until is None else _day(until)}
        return self._ask("FROM changes WHERE snapshot_date BETWEEN $since AND $until ORDER BY ALL", days)

    def changes_since(self, epoch: int | None = None, number: int | None = None) -> Any:
        """What became different for readers since a publish, for a system with a copy of its own: a row for each
        publish and row of a current table or of `students_to_watch`. One row `read everything` answers numbers that
        the file does not know. Keep the last row's `epoch` and `number` for the next question.
        """
        asked = {"epoch": epoch, "number": number}
        return self._ask("FROM changes_since($epoch, $number)", asked)

    def to_watch(self, on: date | str | None = None) -> Any:
        """The students to watch now, or on a day, a row each, with the reasons; the most severe first."""
        return self.table("students_to_watch", on)

    def thresholds(self, **tried: float) -> Any:
        """What the reasons to watch did in the past, a row each: how many were flagged, how many of them rightly, how
        early, for how long. `thresholds(completion_below=40)` adds the rows by other thresholds. Groups of one to four
        students are missing. See `rollbook.reading.thresholds.Measured`.
        """
        import pyarrow as pa

        measured = report(self.warehouse, tried)
        access.note(self.warehouse, "notebook", what="thresholds")
        return self._form(pa.Table.from_pylist([asdict(row) for row in measured.rows]))

    def spoken_to(self) -> Any:
        """The work of the two weeks before and after students were spoken to (`spoken_...`), beside others like them
        (`others_...`), a row for each reason and severity; it shows no cause. Groups of one to four students are
        empty. See `rollbook.reading.contacts.Group`.
        """
        import pyarrow as pa

        rows = contacts.report(self.warehouse).rows
        access.note(self.warehouse, "notebook", what="contacts")
        columns = {"reason": [row.reason for row in rows], "severity": [row.severity for row in rows]}
        for who in ("spoken", "others"):
            for each in fields(contacts.Group):
                columns[f"{who}_{each.name}"] = [getattr(getattr(row, who), each.name) for row in rows]
        return self._form(pa.table(columns))

    def student(self, student_id: int) -> Any:
        """What happened to a student since the first landed day, a row for each change, in words."""
        return self._ask(
            "FROM student_timeline WHERE student_id = $id ORDER BY snapshot_date, what", {"id": student_id}
        )

    def query(self, sql: str, parameters: Mapping[str, Any] | Iterable[Any] | None = None) -> Any:
        """The rows of one query that only reads, or of a view or table.

        `parameters` as DuckDB's own: a list for each `?`, a dict for each `$name`. A value may be pandas' or NumPy's;
        of a Series or an array, `IN ?` takes all.
        """
        return self._ask(sql, parameters)

    def lines(self, frame: pd.DataFrame) -> Drawing:
        """Draw a line for each number of a frame whose first column has the days; Jupyter shows the drawing."""
        from rollbook.features.notebook.drawing import lines

        return lines(frame)

    def _ask(self, sql: str, parameters: Mapping[str, Any] | Iterable[Any] | None = None) -> Any:
        what = access.without_values(query_of(sql))
        values: dict[str, Any] | list[Any]
        if isinstance(parameters, Mapping):
            values = {name: _plain(value) for name, value in parameters.items()}
        elif isinstance(parameters, Iterable) and not isinstance(parameters, str | bytes):
            values = [_plain(value) for value in parameters]
        elif parameters is None:
            values = {}
        else:
            raise ArgumentError("Give the values of a query as a list for ?, or as a dict for $name")
        try:
            rows, students = read_arrow(self._file, sql, values)
        except ArgumentError:
            access.note(self.warehouse, "notebook", what=what)  # DuckDB's error may quote a record
            raise
        access.note(self.warehouse, "notebook", students=students, what=what)
        return self._form(rows)

    @property
    def _file(self) -> Path:
        return self.warehouse / PUBLISHED

    def _names(self) -> set[str]:
        """The names of all tables, views and macros; of those outside `main`, with the schema."""
        listed = """
            SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal
            UNION SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal
            UNION SELECT schema_name, function_name FROM duckdb_functions() WHERE NOT internal
        """
        named = run_query(self._file, listed).rows
        return {name if schema == "main" else f"{schema}.{name}" for schema, name in named}


def _day(given: Any) -> date:
    day = _plain(given)
    if isinstance(day, date):
        return day.date() if isinstance(day, datetime) else day
    try:
        return date.fromisoformat(day)
    except (TypeError, ValueError):
        raise ArgumentError(f"{given!r} is not a day: write it as 2026-09-01") from None


def _plain(value: Any) -> Any:
    """A value of pandas, NumPy or Arrow as Python's own, which DuckDB takes; a list for a Series or an array."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    if isinstance(value, list | tuple | np.ndarray | pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return [_plain(each) for each in value]
    if isinstance(value, np.datetime64 | np.timedelta64) and isinstance(value.item(), int):  # of nanoseconds
        return value.astype(f"{value.dtype.kind}8[us]").item()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, pa.Scalar):
        return value.as_py()
    return None if value is pd.NA or value is pd.NaT else value
