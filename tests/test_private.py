"""Files are the owner's alone: what every entry makes under any umask, and what is there only for a while."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rollbook.errors import MachineError
from rollbook.settings import ROOT
from rollbook.store.clean import clean
from rollbook.store.warehouse import Warehouse
from rollbook.util import files
from tests.support.nights import House, new_house
from tests.support.processes.commands import dagster_home
from tests.support.processes.servers import until
from tests.support.records import classes, students

pytestmark = pytest.mark.nights


@pytest.fixture
def school_of_120() -> Iterator[House]:
    with new_house(students(120), classes(3)) as house:
        yield house


def shown(*roots: Path) -> dict[str, str]:
    """The rights of other accounts below some folders, and how."""
    paths = [p for root in roots for p in (root, *root.rglob("*")) if not p.is_symlink()]
    modes = {str(p.relative_to(roots[0].parent)): stat.S_IMODE(p.stat().st_mode) for p in paths}
    return {name: f"{mode:o}" for name, mode in modes.items() if mode & 0o077}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "open_to_others"),
    [
        ("600", {}),
        (
            "640",
            {"": "750", "/published": "750", "/published/rollbook.duckdb": "440"}
            | {f"/{n}": "640" for n in ("report.html", "thresholds.csv", "terms.csv")},
        ),
    ],
)
def test_a_sync_shows_others_nothing_but_what_the_setting_publishes(
    school_of_120: House, tmp_path: Path, mode: str, open_to_others: dict[str, str]
) -> None:
    """Under the most generous umask, and with a DAGSTER_HOME that was open to all."""
    home = dagster_home(tmp_path / "home")
    (home / "dagster.yaml").chmod(0o644)
    home.chmod(0o777)
    school_of_120.service.now = lambda: datetime.now(UTC)
    done = subprocess.run(
        [sys.executable, "-c", "import os; os.umask(0); from rollbook.cli import main; main()", "sync"],
        env={**os.environ, **school_of_120.environment(published_mode=mode), "DAGSTER_HOME": str(home)},
        cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert shown(home) == {"home/dagster.yaml": "644"}  # which the test wrote, and nobody else can reach
    lake = {"750", "640"} if mode == "640" else set()
    opened = shown(school_of_120.warehouse)
    snapshots = {what for what in opened if what.startswith("warehouse/snapshots")}
    assert {opened[what] for what in snapshots} == lake
    others = {what.removeprefix("warehouse"): how for what, how in opened.items() if what not in snapshots}
    others = {re.sub(r"rollbook\.[^/]+\.duckdb", "rollbook.duckdb", what): how for what, how in others.items()}
    assert others == open_to_others


def test_the_code_location_keeps_what_it_makes_private(tmp_path: Path) -> None:
    """As Dagster's own commands load it, which set no umask."""
    program = (
        "import os; os.umask(0); import rollbook.definitions;"
        f"open({str(tmp_path / 'f')!r}, 'w').close(); os.mkdir({str(tmp_path / 'd')!r})"
    )
    (tmp_path / "home").mkdir(mode=0o755)
    env = {**os.environ, "DAGSTER_HOME": str(tmp_path / "home")}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=env, check=True, timeout=100)
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {
        "f": 0o600,
        "d": 0o700,
        "home": 0o700,
    }


def test_a_temporary_folder_is_private_and_goes_with_its_block(tmp_path: Path) -> None:
    build = files.folder(tmp_path / "build")
    before = os.umask(0)
    try:
        with files.aside(build) as root:
            (root / "bodies").write_text("private")
            assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in (build, root)} == {"build": 0o700, root.name: 0o700}
    finally:
        os.umask(before)
    assert list(build.iterdir()) == []


def test_a_read_only_warehouse_uses_the_systems_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with files.aside(tmp_path / "nowhere") as root:
        assert (root.parent, stat.S_IMODE(root.stat().st_mode)) == (tmp_path, 0o700)
    assert list(tmp_path.iterdir()) == []


def test_a_writer_sweeps_dead_processes_files_and_no_living_ones(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "w")
    warehouse.prepare()
    process = multiprocessing.get_context("fork").Process(target=_leave, args=(warehouse.build,), daemon=True)
    process.start()
    until(lambda: list(warehouse.build.glob("aside-*/bodies")), 10, every=0.02)
    with files.aside(warehouse.build) as mine:
        warehouse.sweep()
        assert len(list(warehouse.build.glob("aside-*"))) == 2
        process.kill()
        process.join(10)
        warehouse.sweep()
        assert list(warehouse.build.glob("aside-*")) == [mine]


def test_a_writer_sweeps_the_half_written_register_of_a_broken_disk(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "w")
    warehouse.prepare()
    half = files.folder(warehouse.root / "private" / "erasures") / ".register.json.partial"
    half.write_text("half a regis")
    warehouse.sweep()
    assert not half.exists()


def _leave(build: Path) -> None:
    with files.aside(build) as root:
        (root / "bodies").write_text("private")
        signal.pause()


def test_a_file_that_cannot_be_copied_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "other.duckdb"
    file.write_bytes(b"Zaphod is not a database")
    with pytest.raises(MachineError, match="other.duckdb could not be copied \\(IOException\\)") as error:
        clean(file, tmp_path / "scratch")
    assert "Zaphod" not in str(error.value)
    assert file.read_bytes() == b"Zaphod is not a database"
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".copy"]


REMAINS = """
import sys
import duckdb

with duckdb.connect(config={"threads": 2}) as con:
    con.execute("CREATE TABLE t AS SELECT repeat('Zaphod', 50) || i AS long, 'Zaphod' AS short, i FROM range(200000) r(i)")
    con.execute("SELECT COUNT(DISTINCT long), MAX(short) FROM t").fetchall()
    con.execute("SELECT long FROM t ORDER BY hash(i) LIMIT 100000").fetchall()
    con.execute("DROP TABLE t")
    con.execute("ATTACH $1 AS other (STORAGE_VERSION 'v1.4.0')", [sys.argv[1]])
    words = ", ".join(f"'ab' || (i % {m}) || repeat('c', {m % 8}) AS w{m}" for m in range(1, 25))
    for n in range(60):
        con.execute(f"CREATE TABLE other.t{n} AS SELECT {words} FROM range({n + 3}) r(i)")
    con.execute("CHECKPOINT other")
"""


def test_a_clean_copy_has_no_remains_of_what_was_in_memory_before(tmp_path: Path) -> None:
    """DuckDB aligns what it writes and leaves the gaps as they are: pieces of a name, up to seven bytes each."""
    file = tmp_path / "other.duckdb"
    subprocess.run([sys.executable, "-c", REMAINS, str(file)], check=True, timeout=60, cwd=ROOT)
    clean(file, tmp_path / "scratch")
    assert {path.name for path in tmp_path.iterdir()} == {file.name, "scratch"}
    content = file.read_bytes()
    pieces = {("Zaphod" * 2)[at : at + 3].encode() for at in range(6)}
    assert content.count(b"ab1") > 10
    assert {piece: content.count(piece) for piece in pieces if piece in content} == {}
