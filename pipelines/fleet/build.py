"""Makes `fleet.duckdb` of what the institutions give: their tables side by side, the views over them, the rollups.

It is made into an empty file, checked, and shown as a whole; until then, and when it fails, readers have the last one.
What is in it is said in `views.fleet`. The rollups are computed by an engine, of the same Parquet files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import reduce
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa

from pipelines import files, machine
from pipelines.errors import CheckError, DamagedError, NothingLandedError
from pipelines.fleet import engine as engines
from pipelines.fleet import rollups, standing
from pipelines.fleet.gathering import DAMAGED, Gathered, gather
from pipelines.institutions import Registry
from pipelines.store import parts
from pipelines.store.database import connect, literal, transaction
from pipelines.store.fleet_file import FILE, FleetFile
from pipelines.store.scope import INSTITUTION
from pipelines.store.statements import statements
from pipelines.tables import Relation
from pipelines.views import fleet as views
from pipelines.views.fleet import INSTITUTIONS

sql = statements("pipelines.fleet")


@dataclass(frozen=True)
class Built:
    """What a build made: how many institutions and students, up to which day, and who was left out and why."""

    institutions: int
    students: int
    newest_day: date | None
    left_out: Mapping[str, str]


class FleetBuild:
    """One build. `fleet` is the fleet's folder, `engine` what computes the rollups, as `engines.of` names it."""

    def __init__(
        self,
        fleet: Path,
        registry: Registry,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        engine: str = engines.DUCKDB,
    ) -> None:
        self.fleet = fleet
        self.registry = registry
        self.clock = clock
        self.engine = engine

    def build(self) -> Built:
        """Make the file and show it to readers.

        An institution whose parts are damaged is left out and named. Raises NothingLandedError when no institution
        gives anything, BusyError while another build runs, EngineError, and CheckError; the last file then stays.
        """
        file = FleetFile(self.fleet)
        with machine.translate_errors(self.fleet), file.building():
            file.sweep()
            try:
                found = gather(self.fleet, file.links, self.registry)
                students = self._make(file, found)
                shown = FleetFile(self.fleet, _mode(found))
                shown.publish()
            finally:
                file.sweep()
        newest = max((g.newest_day for g in found.given.values() if g.newest_day), default=None)
        return Built(len(found.given), students, newest, found.left_out)

    def _make(self, file: FleetFile, found: Gathered) -> int:
        """Make the next version; again without an institution whose files turn out to be damaged. Returns how many
        students are in it.
        """
        while found.given:
            try:
                with connect(file.next, scratch=file.scratch) as con:
                    students = self._fill(con, found)
                with engines.of(self.engine, file.scratch) as computing:
                    rollups.compute(computing, found.links, file.rollups)
                with connect(file.next, scratch=file.scratch) as con:
                    self._finish(con, file.rollups)
                return students
            except _DamagedPartsError as damaged:
                file.next.unlink(missing_ok=True)
                for name in damaged.names:
                    found.leave_out(name, DAMAGED)
        raise NothingLandedError(
            "No institution has published anything that could be put together: run `rollbook fleet sync` first"
        )

    def _fill(self, con: duckdb.DuckDBPyConnection, found: Gathered) -> int:
        """Put the institutions' tables side by side; returns how many students there are."""
        with transaction(con):
            views.create_tables(con)
            _insert(con, INSTITUTIONS, standing.rows(self.fleet, self.registry, found.given, found.left_out))
        for relation in parts.shared():
            _fill_table(con, relation, found)
        _check(con, found)
        row = con.execute("SELECT COUNT(*) FROM main.students").fetchone()
        return int(row[0]) if row else 0

    def _finish(self, con: duckdb.DuckDBPyConnection, computed: Path) -> None:
        """Take in the rollups, and make the views."""
        version = uuid4().hex
        with transaction(con):
            con.execute("INSERT INTO spans.version VALUES ($1, $2)", [version, self.clock().replace(tzinfo=None)])
            for rollup in views.rollups():
                rows = rollups.computed(rollup, computed)
                views.create_rollup(con, rollup, rows)
            views.create_views(con, version)
        con.execute("CHECKPOINT")


class _DamagedPartsError(DamagedError):
    """Files that an institution gave cannot be read."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(f"What the institutions {', '.join(names)} give the fleet cannot be read")
        self.names = tuple(names)


def _mode(found: Gathered) -> int:
    """Who may read the fleet's file: those who may read every institution's own."""
    return reduce(lambda a, b: a & b, (g.mode for g in found.given.values()), 0o777) | files.PRIVATE_FILE


def _insert(con: duckdb.DuckDBPyConnection, relation: Relation, rows: list[standing.Row]) -> None:
    fresh = pa.table({c.name: [row[c.name] for row in rows] for c in relation.columns})
    con.register("fresh", fresh)
    con.execute(f"INSERT INTO {relation.schema}.{relation.name} BY NAME SELECT * FROM fresh")
    con.unregister("fresh")


def _fill_table(con: duckdb.DuckDBPyConnection, relation: Relation, found: Gathered) -> None:
    """Fill a table with the rows of all institutions, in the order of their names.

    Parts of an earlier Rollbook may lack a column, or have another type there: such values are NULL, as in a file that
    is upgraded.
    """
    there = found.files(parts.title(relation))
    if not there:
        return
    try:
        source = f"[{', '.join(literal(path) for path in there.values())}]"
        known = {row[0] for row in con.execute(sql("part_columns", source=source)).fetchall()}
        columns = [c for c in relation.columns if c.name in known]
        con.execute(sql("fill", into=f"{relation.schema}.{relation.name}", columns=columns, source=source))
    except duckdb.Error as error:
        damaged = [name for name, path in there.items() if not _can_be_read(con, path)]
        if not damaged:
            raise
        raise _DamagedPartsError(damaged) from error


def _can_be_read(con: duckdb.DuckDBPyConnection, path: Path) -> bool:
    try:
        con.execute(f"SELECT BIT_XOR(HASH(t)) FROM read_parquet({literal(path)}) AS t").fetchall()
    except duckdb.Error:
        return False
    return True


def _check(con: duckdb.DuckDBPyConnection, found: Gathered) -> None:
    """Raise CheckError unless each table holds what each institution says that it gave, and nothing else."""
    broken = {}
    for relation in parts.shared():
        table, full = parts.title(relation), f"{relation.schema}.{relation.name}"
        counted = dict(con.execute(f"SELECT {INSTITUTION}, COUNT(*) FROM {full} GROUP BY ALL").fetchall())
        given = {name: g.tables[table].rows for name, g in found.given.items() if table in g.tables}
        if counted != {name: rows for name, rows in given.items() if rows}:
            broken[table] = [f"{full} does not hold what the institutions gave"]
    if broken:
        told = "; ".join(sentence for sentences in broken.values() for sentence in sentences)
        raise CheckError(f"{told}. {FILE} was left as it was; run `rollbook fleet build` again", broken)
