"""History is a function of the landed days: the sandbox's fortnight in any order, and all a backfill is for.

Everything here works on copies of one `raw/`, landed once. What is compared are the bytes of sorted exports of every
table: current rows, versions, changes, the writer's own runs of days, and the record of the work (G7 and G8).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest

from pipelines.errors import NothingLandedError
from pipelines.sandbox import Sandbox
from pipelines.store.database import connect
from pipelines.store.history.engine import History
from pipelines.store.lake import DayRecord, Lake
from pipelines.sync import always
from pipelines.tables import TABLES, Table
from tests.support.nights import folder
from tests.support.processes.commands import UNREACHABLE, dagster_home, run_command
from tests.support.processes.kills import Job, killed_or_done, start
from tests.support.warehouses.fortnight import (
    DAYS,
    FIRST,
    HELD,
    LAST,
    TWICE,
    UNPROVEN,
    copied,
    copy,
    export,
    lake,
    landed,
    rollbook,
    rows,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = ("main", "history", "spans")


@pytest.fixture(scope="module")
def fortnight() -> Iterator[tuple[Path, Sandbox]]:
    with landed() as made:
        yield made


@pytest.fixture(scope="module")
def source(fortnight: tuple[Path, Sandbox]) -> Path:
    return fortnight[0]


@pytest.fixture(scope="module")
def expected(source: Path) -> dict[str, str]:
    """What the nights, synced in order, one by one, have published."""
    return export(source / "rollbook.duckdb")


@pytest.fixture
def warehouse(source: Path) -> Iterator[Path]:
    """A whole copy."""
    with copied(source) as made:
        yield made


@contextmanager
def arriving(source: Path, order: Sequence[date]) -> Iterator[Path]:
    """A new warehouse into which the days come in this order, each merged and published before the next is there."""
    with folder() as made:
        for day in order:
            book = rollbook(copy(source, made, [day]))
            with book.writer():
                book.merge()
                book.publish()
        yield made / "rollbook.duckdb"


def records_of(digests: dict[str, str]) -> dict[str, str]:
    """An export without the record of the work: a sync has a time of its own."""
    return {name: digest for name, digest in digests.items() if not name.startswith("ops.")}


def shuffled(seed: int) -> list[date]:
    return random.Random(seed).sample(DAYS, len(DAYS))


def test_the_fortnight_is_worth_comparing(source: Path) -> None:
    """It holds every kind of change, a day synced twice, a held and an unproven landing."""
    published = source / "rollbook.duckdb"
    kinds = dict(rows(published, "SELECT change, COUNT(*) FROM changes WHERE snapshot_date > $1 GROUP BY 1", FIRST))
    assert kinds.keys() == {"added", "changed", "removed", "returned"}
    assert min(kinds.values()) > 10
    verdicts = rows(published, "SELECT snapshot_date, landing, verdict FROM ops.syncs WHERE landing > 1 ORDER BY 1")
    assert verdicts == [(TWICE, 2, "synced"), (HELD, 2, "held"), (UNPROVEN, 2, "unproven")]


@pytest.mark.parametrize("order", [DAYS[::-1], shuffled(1)], ids=["backwards", "shuffled"])
def test_days_arriving_in_any_order_make_the_same_bytes(
    source: Path, expected: dict[str, str], order: Sequence[date]
) -> None:
    with arriving(source, order) as published:
        assert export(published) == expected


def test_days_arriving_in_bunches_make_the_same_bytes(source: Path, expected: dict[str, str]) -> None:
    """Several days at once are spliced one after the other, and very many are folded anew: nobody can tell."""
    order = shuffled(2)
    with folder() as made:
        for bunch in (order[:1], order[1:4], order[4:6], order[6:]):
            book = rollbook(copy(source, made, bunch))
            with book.writer():
                book.publish()  # by itself: it merges what no merge has seen
        assert export(made / "rollbook.duckdb") == expected


def test_pairs_of_days_merged_at_once_by_two_processes_make_the_same_bytes(
    source: Path, expected: dict[str, str]
) -> None:
    """Both days are there before either writer is; who comes first, and who finds the other's work done, is chance."""
    order = shuffled(6)
    with folder() as made:
        rollbook(copy(source, made, order[6:])).rebuild()
        for pair in zip(order[:6:2], order[1:6:2], strict=True):
            copy(source, made, pair)
            writers = [start(Job("backfill", made, "http://127.0.0.1:9", day, day)) for day in pair]
            assert [killed_or_done(writer) for writer in writers] == [False] * len(writers)
        assert export(made / "rollbook.duckdb") == expected


def test_a_sync_and_a_backfill_at_once_make_the_same_tables(
    fortnight: tuple[Path, Sandbox], expected: dict[str, str]
) -> None:
    source, sandbox = fortnight
    sandbox.day = LAST
    with copied(source, [d for d in DAYS[:-1] if d != DAYS[7]]) as made:
        rollbook(made).rebuild()
        copy(source, made, [DAYS[7]])
        night = Job("sync", made, sandbox.base_url, LAST, LAST)
        late = Job("backfill", made, sandbox.base_url, DAYS[6], DAYS[8])
        writers = [start(job) for job in (night, late, night)]
        assert [killed_or_done(writer) for writer in writers] == [False] * len(writers)
        assert export(made / "rollbook.duckdb", RECORDS) == records_of(expected)


def test_the_definition_over_the_lake_alone_is_what_the_tables_hold(source: Path) -> None:
    with connect(source / "rollbook.duckdb", scratch=source / "build" / "spill", read_only=True) as con:
        history = History(con, rollbook(source).lake)
        for name, table in TABLES.items():
            defined = con.execute(f"SELECT * FROM ({history.definition(table)}) ORDER BY ALL").fetchall()
            assert defined == con.execute(f"SELECT * FROM history.{name} ORDER BY ALL").fetchall(), name


def test_each_landed_day_is_remembered_as_it_was_landed(source: Path) -> None:
    """Of the tables about which no record is ever silent, the day's snapshot is the whole truth."""
    published = source / "rollbook.duckdb"
    for table in TABLES.values():
        if table.may_be_unstated or table.set == "details":
            continue
        columns = ", ".join(c.name for c in table.versioned)
        for day in (*DAYS[::4], HELD, UNPROVEN, LAST):
            then = rows(published, f"SELECT * FROM {table.name}_as_of($1) ORDER BY ALL", day)
            shown = f"SELECT {columns} FROM snapshots.{table.name} WHERE snapshot_date = $1 ORDER BY ALL"
            assert then == rows(published, shown, day), (table.name, day)
        assert rows(published, f"SELECT * FROM {table.name}_as_of($1)", FIRST - timedelta(days=1)) == []
        later = rows(published, f"SELECT * FROM {table.name}_as_of($1) ORDER BY ALL", LAST + timedelta(days=99))
        assert later == rows(published, f"SELECT {columns} FROM main.{table.name} ORDER BY ALL")
    logged = "SELECT COUNT(*) FROM changes WHERE snapshot_date > $1 AND snapshot_date <= $2"
    between = rows(published, "SELECT COUNT(*) FROM changes_between($1, $2)", DAYS[3], DAYS[9])
    assert between == rows(published, logged, DAYS[3], DAYS[9]) != [(0,)]


def test_a_backfill_of_each_day_in_random_order_changes_nothing(warehouse: Path, expected: dict[str, str]) -> None:
    before = lake(warehouse)
    for day in shuffled(3):
        assert list(rollbook(warehouse).backfill(day, day).rebuilt) == [day]
    assert export(warehouse / "rollbook.duckdb") == expected
    assert lake(warehouse) == before


def test_a_rebuild_from_raw_alone_equals_the_live_tables_the_record_of_the_work_too(
    source: Path, expected: dict[str, str]
) -> None:
    with copied(source, DAYS) as made:
        rollbook(made).rebuild()
        assert export(made / "rollbook.duckdb") == expected
        assert lake(made) == lake(source)


def test_what_has_not_changed_is_not_merged_again(warehouse: Path) -> None:
    """A day flattened again to the same content leaves nothing to merge, and every row where it is in the file."""
    tables = [f"{schema}.{name}" for schema in ("history", "spans", "main") for name in TABLES]

    def where() -> dict[str, list[tuple[object, ...]]]:
        published = warehouse / "rollbook.duckdb"
        return {t: rows(published, f"SELECT rowid, * FROM {t} ORDER BY rowid") for t in (*tables, "main.changes")}

    before, book = where(), rollbook(warehouse)
    with book.writer():
        assert list(book.resnapshot(DAYS).rebuilt) == list(DAYS)
        with book.warehouse.writing(book.warehouse.published) as (con, _):
            assert History(con, book.staged or book.lake).behind() == []
        counts = book.merge()
        book.publish()
    assert [c for c in counts if c.added or c.changed or c.removed] == []
    assert where() == before


def test_a_new_day_is_merged_without_the_days_that_only_leavers_were_last_seen_on(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a night would read ever more of the lake, as more and more records are gone."""
    read: set[date] = set()
    scan = Lake.scan

    def noted(lake: Lake, table: Table, days: Collection[DayRecord]) -> str:
        read.update(record.snapshot_date for record in days)
        return scan(lake, table, days)

    with folder() as made:
        book = rollbook(copy(source, made, DAYS[:-1]))
        with book.writer():
            book.merge()
            book.publish()
        book = rollbook(copy(source, made, [LAST]))
        with book.writer(recover=False), monkeypatch.context() as patch:
            book.recovery.recover_lake()
            patch.setattr(Lake, "scan", noted)
            book.merge()
            patch.undo()
            book.publish()
        last_seen = f"""SELECT MAX(COALESCE(last_day, DATE '{LAST}')) AS day FROM spans.student_activity
            WHERE span_state = 'stated' AND student_id {{}} IN (SELECT student_id FROM main.student_activity)
            GROUP BY student_id"""
        current, gone = (
            {day for (day,) in rows(made / "rollbook.duckdb", last_seen.format(which))} for which in ("", "NOT")
        )
    assert gone - current, "somebody left on a day that nobody else was last seen on"
    assert LAST in read <= current


def test_a_backfill_of_many_days_publishes_once(warehouse: Path) -> None:
    versions = rollbook(warehouse).warehouse.versions
    for version in versions.kept():
        version.unlink()
    (was,) = versions.all()
    rollbook(warehouse).backfill(FIRST, LAST)
    assert versions.kept() == [was]


# --- a day lost, and brought back ------------------------------------------------------------------------------------


def test_a_day_restored_from_a_backup_of_raw_is_as_if_it_had_never_been_away(
    source: Path, warehouse: Path, expected: dict[str, str]
) -> None:
    """Away it is as if it had never been landed: a rebuild goes by `raw/` alone, not by what the lake still holds."""
    lost = DAYS[6]
    others = [d for d in DAYS if d != lost]
    shutil.rmtree(warehouse / "raw" / f"snapshot_date={lost}")
    rollbook(warehouse).rebuild(confirm=always, accept_loss=True)
    with folder() as made:
        rollbook(copy(source, made, others)).rebuild()
        assert export(warehouse / "rollbook.duckdb") == export(made / "rollbook.duckdb") != expected
        assert lake(warehouse) == lake(made)
    copy(source, warehouse, [lost])
    assert list(rollbook(warehouse).backfill(lost, lost).rebuilt) == [lost]
    assert export(warehouse / "rollbook.duckdb") == expected


@pytest.mark.parametrize("what", ["the whole day", "one file"])
def test_a_day_of_the_lake_that_was_lost_comes_back_from_raw(
    warehouse: Path, expected: dict[str, str], what: str
) -> None:
    before, day = lake(warehouse), f"snapshot_date={DAYS[3]}"
    if what == "the whole day":
        for found in (warehouse / "snapshots").glob(f"*/{day}"):
            shutil.rmtree(found)
    else:
        (warehouse / "snapshots" / "students" / day / "part-0.parquet").unlink()
    with rollbook(warehouse).writer():
        pass  # the next writer puts it right before anything else
    assert lake(warehouse) == before
    rollbook(warehouse).backfill(FIRST, FIRST)
    assert export(warehouse / "rollbook.duckdb") == expected


def test_a_day_that_was_never_landed_is_named_without_failing_the_others(source: Path) -> None:
    with copied(source, [d for d in DAYS if d != DAYS[5]]) as made:
        done = rollbook(made).backfill(FIRST, LAST)
        assert done.skipped == {DAYS[5]: f"nothing was landed on {DAYS[5]}, and the service keeps no history"}
        assert list(done.rebuilt) == [d for d in DAYS if d != DAYS[5]]
        was = export(made / "rollbook.duckdb")
        with pytest.raises(NothingLandedError, match=f"^nothing was landed on {DAYS[5]}, and the service keeps"):
            rollbook(made).backfill(DAYS[5], DAYS[5])
        assert export(made / "rollbook.duckdb") == was


def test_a_held_landing_is_left_out_and_a_day_with_nothing_else_says_how_to_merge_it(
    source: Path, warehouse: Path, expected: dict[str, str]
) -> None:
    done = rollbook(warehouse).backfill(FIRST, LAST)
    assert (done.held, done.skipped) == ({HELD: [2]}, {})
    assert export(warehouse / "rollbook.duckdb") == expected
    with copied(source, [HELD]) as made:
        shutil.rmtree(made / "raw" / f"snapshot_date={HELD}" / "landing=1")
        with pytest.raises(NothingLandedError, match=f"what was landed on {HELD} is held; .*--date {HELD} --approve"):
            rollbook(made).backfill(FIRST, HELD)


def test_a_held_landing_counts_from_its_approval_on(warehouse: Path, source: Path) -> None:
    """Approved last of all, it is what it would have been: the last word on a day long past."""
    book = rollbook(warehouse)
    book.approve(HELD)
    late = export(warehouse / "rollbook.duckdb", RECORDS)
    assert late != export(source / "rollbook.duckdb", RECORDS)
    with arriving(warehouse, shuffled(4)) as published:
        assert export(published, RECORDS) == late


# --- a column more ---------------------------------------------------------------------------------------------------


def test_a_new_column_is_null_until_a_backfill_fills_it_for_all_landed_days(
    fortnight: tuple[Path, Sandbox], expected: dict[str, str]
) -> None:
    (source, sandbox), name, column = fortnight, "classes", "class_dateadded"
    with copied(source, DAYS[:-1]) as made:
        before = Job("rebuild", made, sandbox.base_url, FIRST, LAST, without=column)
        assert not killed_or_done(start(before))
        published = made / "rollbook.duckdb"
        assert column not in [r[0] for r in rows(published, f"DESCRIBE history.{name}")]
        sandbox.day = LAST
        rollbook(made, sandbox.base_url).sync(LAST)  # held by nobody: a new column is not a change in the records
        filled = f"SELECT DISTINCT valid_from FROM history.{name} WHERE {column} IS NOT NULL"
        assert rows(published, filled) == [(LAST,)]
        assert rows(published, f"SELECT COUNT(*) FROM main.{name} WHERE {column} IS NULL") == [(0,)]
        nulls = f"SELECT COUNT(*) > 0, COUNT({column}) FROM snapshots.{name} WHERE snapshot_date < $1"
        assert rows(published, nulls, LAST) == [(True, 0)]

        assert list(rollbook(made).backfill(FIRST, LAST).rebuilt) == list(DAYS)
        assert export(published, RECORDS) == records_of(expected)


def test_what_was_flattened_wrongly_is_put_right_by_backfills_in_any_order(
    source: Path, expected: dict[str, str]
) -> None:
    """Days that were flattened wrongly come right bunch by bunch, newest first, as an operator's clicks may have it."""
    with copied(source, DAYS) as made:
        assert not killed_or_done(start(Job("rebuild", made, "http://127.0.0.1:9", FIRST, LAST, wrongly=True)))
        assert records_of(export(made / "rollbook.duckdb")) != records_of(expected)
        for last in (13, 9, 3):
            rollbook(made).backfill(DAYS[max(0, last - 5)], DAYS[last])
        assert export(made / "rollbook.duckdb") == expected


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_names_what_it_left_out_and_succeeds(source: Path, tmp_path: Path) -> None:
    home = dagster_home(tmp_path / "dagster_home")
    with copied(source, [d for d in DAYS if d != DAYS[5]]) as made:
        rollbook(made).rebuild()
        was = export(made / "rollbook.duckdb")
        given = {"ROLLBOOK_WAREHOUSE": str(made), "ROLLBOOK_FIRST_DATE": str(FIRST), "DAGSTER_HOME": str(home)}
        done = run_command("backfill", str(DAYS[3]), str(LAST), env=UNREACHABLE | given)
        assert (done.returncode, done.stdout) == (0, f"Rebuilt 10 days: {DAYS[3]} to {LAST}.\n"), done.stderr
        assert done.stderr.splitlines() == [
            f"Skipped: nothing was landed on {DAYS[5]}, and the service keeps no history.",
            f"Skipped: landing 2 of {HELD} is held.",
        ]
        assert export(made / "rollbook.duckdb") == was
