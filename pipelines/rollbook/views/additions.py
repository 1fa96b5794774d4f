"""What features add to the next file: tables that they declare, macros, and the rows.

A file has the tables, views and macros that Rollbook and the features which are there declare, and nothing of a feature
that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import duckdb

from rollbook.landing.raw import RawStore
from rollbook.store import schema
from rollbook.store.database import quoted, transaction
from rollbook.tables import Declared, Relation
from rollbook.views import catalog

Connection = duckdb.DuckDBPyConnection

# A macro in the file that returns the digest of all that was declared when it was filled.
DECLARED_THEN = "declarations_digest"

# What a file holds: the kind for DROP, schema, name. Listing functions takes DuckDB as long as merging a small table.
_MACROS = """
SELECT IF(function_type = 'table_macro', 'MACRO TABLE', 'MACRO'), schema_name, function_name
FROM duckdb_functions() WHERE NOT internal AND database_name = CURRENT_DATABASE()
"""
_RELATIONS = """
SELECT 'VIEW', schema_name, view_name FROM duckdb_views() WHERE NOT internal AND database_name = CURRENT_DATABASE()
UNION ALL
SELECT 'TABLE', schema_name, table_name FROM duckdb_tables() WHERE NOT internal AND database_name = CURRENT_DATABASE()
"""


@dataclass(frozen=True)
class NextFile:
    """The file that readers are about to get, for what fills it: its `version`, the declarations, and how it came to
    be.

    Against the file `base`, of which it is a copy and which is attached as `published`, only the `touched` tables may
    differ, and in their history only the days from `since` on (None: any). Without a base, it cannot be compared with
    any file: it is new, its declarations have changed, or a student was erased from it. `ahead` is what `look` found in
    the published file, by feature. `raw` has what was landed; None for a file of an earlier publish, which stays as it
    was.
    """

    version: str
    declared: Declared
    base: Path | None = None
    since: date | None = None
    touched: frozenset[str] = frozenset()
    ahead: Mapping[str, Any] = field(default_factory=dict)
    raw: RawStore | None = None


class Addition(Protocol):
    """A feature, as the next file knows it (see `rollbook.feature.Feature`)."""

    @property
    def name(self) -> str:
        """The feature's name."""

    def relations(self) -> Iterable[Relation]:
        """Tables that it declares."""

    def macros(self, version: str) -> Iterable[catalog.Macro]:
        """Macros, for a version of the file."""

    def look(self, con: Connection) -> object:
        """Read, while the service is still asked, what `fill` needs of the published file, attached as `published`."""

    def fill(self, con: Connection, file: NextFile) -> None:
        """Fill its tables. An error fails the publish."""


def look(con: Connection, additions: Sequence[Addition]) -> dict[str, object]:
    """What the features find in the published file, attached as `published`, by feature."""
    return {each.name: found for each in additions if (found := each.look(con)) is not None}


def fill(con: Connection, additions: Sequence[Addition], file: NextFile) -> None:
    """Bring what features add to an open file up to date; what no feature declares any more goes."""
    relations = [relation for each in additions for relation in each.relations()]
    macros = [macro for each in additions for macro in each.macros(file.version)]
    with transaction(con):
        if not drop_others(con, relations, macros) and schema.ensure(con, relations):
            file = replace(file, base=None)
        catalog.create_macros(con, macros)
    for each in additions:
        each.fill(con, file)


def drop_others(con: Connection, relations: Sequence[Relation], macros: Iterable[catalog.Macro]) -> bool:
    """Drop the tables, views and macros of an open file that nothing declares. Returns whether the same was declared
    when the file was last filled, so that it has these tables.
    """
    declared = {(r.schema, r.name) for r in (*schema.declared(), *schema.snapshots(), *relations)}
    declared |= {("main", view) for view in catalog.VIEWS}
    declared |= {("main", m.name) for m in (*catalog.macros(), *macros)}
    declared |= {("spans", digest) for digest in (schema.HAS_TABLES, catalog.MADE, DECLARED_THEN)}
    # Views before tables, and macros before both, which they may read.
    others = sorted((each for each in con.execute(_RELATIONS).fetchall() if each[1:] not in declared), reverse=True)
    digest = sha256(repr((sorted(declared), relations)).encode()).hexdigest()
    is_same = schema.noted(con, DECLARED_THEN) == digest
    # Where the same was declared before, only a school's own lists bring macros, each with a table.
    if others or not is_same:
        others[:0] = [each for each in con.execute(_MACROS).fetchall() if each[1:] not in declared]
        schema.note(con, DECLARED_THEN, digest, "what was declared when this file was filled")
    for kind, *names in others:
        con.execute(f"DROP {kind} {'.'.join(map(quoted, names))}")
    return is_same
