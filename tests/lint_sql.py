"""Whether every SQL file is a statement that DuckDB's grammar allows, and says in its first line what it makes.

`make lint` runs this. Templates are rendered for every table and in each of their variants, with stand-ins for the
relations that code puts in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import sqlglot

from rollbook.settings import ROOT
from rollbook.store.lake import Staged
from rollbook.store.schema import CHANGE_KEYS
from rollbook.store.statements import environment
from rollbook.tables import TABLES, Table
from rollbook.views import catalog

RELATION = "SELECT * FROM some_relation"
# These are several statements, which the history runs one after the other.
SEVERAL = ("begin_runs.sql", "contacts.sql", "own_rows.sql", "refold.sql", "refresh_current.sql", "replace_runs.sql")
# The values that code puts into a statement besides its table, in every variant.
VARIANTS: tuple[dict[str, object], ...] = (
    {
        "touched": False,
        "is_forgotten": False,
        "since": True,
        "names": True,
        "is_past": True,
        "seen": "",
        "refused": "",
    },
    {"untracked": True, "touched": False, "is_forgotten": True, "since": False, "names": False, "is_past": False},
    {"touched": True, "is_forgotten": False, "since": False, "names": False, "is_past": True},
)
ALWAYS: dict[str, object] = {
    "own_where": '"year" = $own_0',
    "untracked": False,
    "rows": RELATION,
    "seen": "read_parquet('seen.parquet')",
    "refused": RELATION,
    "history": "published.history.some_table",
    "observed": RELATION,
    "observations": RELATION,
    "runs": "spans.some_table",
    "shown": "student_id",
    "listed": "main.some_table",
    "new": "read_parquet('new.parquet')",
    "current": "published.main.some_table",
    "total": "some_total",
    "lately": "SELECT 1 AS student_id",
    "found_students": "SELECT 1 AS student_id",
    "found_classes": "SELECT 1 AS class_id",
    "measures": TABLES["student_activity"].measures,
    "new_totals": "read_parquet('totals.parquet')",
    "current_totals": "published.main.some_totals",
    "before": "published.main",
    "after": "next.main",
    "some": "id >= 1",
    "some_ids": "id >= 1",
    "change_keys": CHANGE_KEYS,
    "most": 10,
    "fed": (("students", ("student_id",)), ("student_classes", ("student_id", "class_id"))),
    "version": "a1b2",
    "flags": ("is_missing_work", "is_inactive"),
    "day": "DATE '2026-10-07'",
    **catalog.PARTS,
    "into": "history.students",
    "values": ["c.code AS student_id", "t.valid_from"],
    "student": "student_id",
    "relation": "students",
    "staged": (Staged(Path("stage"), 1), Staged(Path("stage"), 2)),
    "several_schemas": False,
    "order": ["c.code", "t.valid_from"],
    "only": "t.span_state <> 'stated'",
    "key": ("student_id",),
    "keys": ("student_id",),
    "column": "student_id",
    "kept": TABLES["student_summaries"].tracked,
    "tables": ("'students'",),
    "personal": "column_name = 'name'",
    "source": "['part.parquet']",
    "flag": "is_missing_work",
    "watched": f"watched AS ({RELATION})",
    "about": RELATION,
    "long_ago": "over 100 days ago",
    "students": "[1]",
    "kinds": (("email", "students", "email"),),
    "key_of": {"students": "student_id"},
    "contacted": "contacted.csv",
    "month": "contacted-",
    "reasons": ("is_missing_work", "any"),
    "severities": ((4, "high"), (0, "low")),
    "fortnight": 14,
}


def rendered(path: Path) -> Iterator[str]:
    """The texts of one file's statement: of each table and variant, those that differ."""
    package = ".".join(path.parent.parent.relative_to(ROOT / "pipelines").parts)
    template = environment(package, path.parent.name).get_template(path.name)
    yield from dict.fromkeys(
        template.render(
            ALWAYS | {"columns": columns(template.name, table), "table": table, "tracked": table.tracked} | variant
        )
        for table in TABLES.values()
        for variant in VARIANTS
    )


def columns(template: str | None, table: Table) -> Sequence[object]:
    """A statement's columns: for the lake, each with whether the files have the column."""
    return [(c, c.tracked) for c in table.columns] if template == "scan.sql" else table.versioned


def faults(path: Path) -> Iterator[str]:
    """The faults of one file, in sentences."""
    if not path.read_text(encoding="utf-8").startswith("-- "):
        yield "its first line does not say what it makes"
    for text in rendered(path):
        plain = text.replace(" := NULL)", ")")  # the default of a macro's parameter, which sqlglot does not know
        try:
            statements = [s for s in sqlglot.parse(plain, dialect="duckdb") if s is not None]
        except sqlglot.errors.ParseError as error:
            yield f"it cannot be parsed: {str(error).splitlines()[0]}"
            return
        if len(statements) != 1 and path.name not in SEVERAL:
            yield f"it holds {len(statements)} statements"
            return


def main() -> int:
    """Print every fault; returns how many there are."""
    count = 0
    for path in sorted((ROOT / "pipelines" / "rollbook").rglob("*.sql")):
        if not path.name.startswith("_") and path.name != "cookbook.sql":  # _*.sql: what statements share
            for fault in faults(path):
                count += 1
                print(f"{path.relative_to(ROOT)}: {fault}", file=sys.stderr)  # noqa: T201
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
