"""The command as it is typed: exit codes, one clear line, and what is left on disk."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rollbook.sandbox import Sandbox
from rollbook.terminal import CONFIGURATION
from tests.support.processes.commands import dagster_home, run_command
from tests.support.reading import rows
from tests.support.records import classes, students
from tests.support.wire.service import KEY, Service

TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def rollbook(tmp_path: Path) -> Run:
    """`rollbook`, in a folder of its own: its warehouse is `warehouse`, its Dagster home `home`."""
    home = dagster_home(tmp_path / "home")

    def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        own = {"DAGSTER_HOME": str(home), "ROLLBOOK_WAREHOUSE": str(tmp_path / "warehouse")}
        env = own | {"ROLLBOOK_RETRY_SECONDS": "1", "COLUMNS": "2000"} | settings
        return run_command(*arguments, env=env, cwd=tmp_path)

    return run


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(students(60), classes(3)) as running:
        yield running


def at(service: Service | Sandbox) -> dict[str, str]:
    return {"ROLLBOOK_BASE_URL": service.url, "ROLLBOOK_API_KEY": KEY}


def published(tmp_path: Path, query: str) -> list[tuple[Any, ...]]:
    return rows(tmp_path / "warehouse" / "rollbook.duckdb", query)


def runs(home: Path) -> int:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return instance.get_runs_count()


def one_line(done: subprocess.CompletedProcess[str], exit_code: int) -> str:
    """The single line of an error, which is not a traceback."""
    assert done.returncode == exit_code, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith(("Error:", "Held:"))]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    return lines[0]


def test_an_unreachable_service_fails_with_what_to_check(rollbook: Run, tmp_path: Path) -> None:
    line = one_line(rollbook("sync", ROLLBOOK_BASE_URL="http://127.0.0.1:9", ROLLBOOK_API_KEY=KEY), 1)
    assert "127.0.0.1:9 gave no usable answer" in line
    assert "Check that ROLLBOOK_BASE_URL is right" in line
    assert not (tmp_path / "warehouse" / "rollbook.duckdb").exists()


def test_a_refused_key_says_whom_to_ask_and_leaves_the_published_file(
    rollbook: Run, tmp_path: Path, service: Service
) -> None:
    assert rollbook("sync", **at(service)).returncode == 0
    before = (tmp_path / "warehouse" / "rollbook.duckdb").read_bytes()
    line = one_line(rollbook("sync", **(at(service) | {"ROLLBOOK_API_KEY": "another"})), 1)
    assert "does not accept the API key (401)" in line
    assert "Ask the service representative" in line
    assert (tmp_path / "warehouse" / "rollbook.duckdb").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--date", "2026-07-01"), "ROLLBOOK_FIRST_DATE"),
        (("--date", str(TODAY + timedelta(days=2))), "has not begun"),
    ],
)
def test_a_date_without_a_partition_is_an_argument_to_correct(
    rollbook: Run, service: Service, arguments: tuple[str, ...], says: str
) -> None:
    assert says in one_line(rollbook("sync", *arguments, **at(service)), 2)
    assert service.requests == []


def test_the_result_is_one_json_object_for_a_program(rollbook: Run, service: Service) -> None:
    done = rollbook("sync", "--json", **at(service))
    result = json.loads(done.stdout)
    assert (result["snapshot_date"], result["landing"], result["outcome"]) == (str(TODAY), 1, "synced")
    assert result["received"] == {"students": 60, "classes": len(service.classes)}
    assert {count["table"]: count["added"] for count in result["counts"]}["students"] == 60
    assert "leave out --dry-run and --approve" in one_line(rollbook("sync", "--json", "--approve", **at(service)), 2)
    del service.students[30:]
    held = rollbook("sync", "--json", "--fresh", **at(service))
    assert (held.returncode, held.stdout) == (3, "")


def test_a_landslide_is_held_with_exit_3_and_approved_without_fetching(
    rollbook: Run, tmp_path: Path, service: Service
) -> None:
    assert rollbook("sync", **at(service)).returncode == 0
    del service.students[30:]
    line = one_line(rollbook("sync", **at(service)), 3)
    assert "30 of 60 students" in line
    assert f"rollbook sync --date {TODAY} --approve" in line
    assert published(tmp_path, "SELECT COUNT(*) FROM students") == [(60,)]
    service.requests.clear()
    refused = rollbook("sync", "--date", str(TODAY), "--approve", **at(service))  # nobody can be asked
    assert "was not confirmed" in one_line(refused, 3)
    assert published(tmp_path, "SELECT COUNT(*) FROM students") == [(60,)]
    shown = rollbook("held", "--names", **at(service)).stdout
    assert "30 of 60 students" in shown
    assert "Pupil Number60" in shown
    assert "Pupil Number30 " not in shown
    assert "0 rows would be added" in rollbook("status", **at(service)).stdout
    done = rollbook("sync", "--date", str(TODAY), "--approve", "--yes", **at(service))
    assert done.returncode == 0, done.stderr
    assert service.requests == []
    assert "0 rows added" in rollbook("status", **at(service)).stdout
    assert published(tmp_path, "SELECT COUNT(*) FROM students") == [(30,)]
    assert published(tmp_path, "SELECT outcome, verdict FROM ops.syncs ORDER BY landing") == [
        ("synced", "synced"),
        ("synced", "approved"),
    ]


def test_backfill_rebuilds_what_was_landed_and_names_what_was_not(rollbook: Run, service: Service) -> None:
    """Days before the first landed one among them."""
    assert rollbook("sync", **at(service)).returncode == 0
    service.requests.clear()
    before = [str(TODAY - timedelta(days=n)) for n in (9, 8)]
    done = rollbook("backfill", before[0], str(TODAY), **at(service))
    assert done.returncode == 0, done.stderr
    assert f"Rebuilt 1 day: {TODAY}." in done.stdout
    assert f"nothing was landed on {before[1]}, and the service keeps no history" in done.stderr
    line = one_line(rollbook("backfill", *before, **at(service)), 1)
    assert all(f"nothing was landed on {day}, and the service keeps no history" in line for day in before)
    assert service.requests == []
    assert "write rollbook backfill" in one_line(rollbook("backfill", str(TODAY), str(YESTERDAY), **at(service)), 2)


def test_the_command_writes_without_dagster_and_what_pyarrow_and_httpx_like(tmp_path: Path, service: Service) -> None:
    code = (
        "import sys; from rollbook.cli import app\n"
        f"for typed in ('sync', 'backfill {TODAY} {TODAY}', 'rebuild --yes', 'sync --dry-run', 'status'):\n"
        "    app(typed.split(), standalone_mode=False)\n"
        "print({name.partition('.')[0] for name in sys.modules} & {'apprise', 'dagster', 'pandas', 'numpy', 'click'})"
    )
    variables = {**os.environ, **at(service), "ROLLBOOK_WAREHOUSE": str(tmp_path / "warehouse")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "Synced" in done.stdout
    assert "Rebuilt 1 day" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_sync_again_within_minutes_says_what_it_used_again(rollbook: Run, service: Service) -> None:
    settings = at(service) | {"ROLLBOOK_CACHE_MINUTES": "5", "ROLLBOOK_FIRST_DATE": str(YESTERDAY)}
    assert "is used again" not in rollbook("sync", **settings).stdout
    service.requests.clear()
    again = rollbook("sync", **settings)
    assert again.returncode == 0
    assert "and is used again. To fetch it once more: rollbook sync --fresh" in again.stdout
    assert [r.path for r in service.requests] == ["auth"]
    fresh = rollbook("sync", "--fresh", **settings)
    assert (fresh.returncode, "is used again" in fresh.stdout) == (0, False)
    assert len(service.requests) > 2


def test_a_sync_warns_of_a_misspelt_setting_without_the_runs_id(rollbook: Run, service: Service) -> None:
    done = rollbook("sync", **at(service), ROLLBOOK_KEEPDAYS="9")
    assert done.returncode == 0
    assert done.stderr == "Warning: ROLLBOOK_KEEPDAYS is not a setting: did you mean ROLLBOOK_KEEP_DAYS?\n"


def test_serve_says_which_option_to_use_when_the_port_is_taken(rollbook: Run, service: Service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = one_line(rollbook("serve", "--port", str(port), **at(service)), 2)
    assert line.startswith(f"Error: Port {port} of 127.0.0.1 cannot be opened (Address already in use)")
    assert f"rollbook serve --port {port + 1}" in line


def test_the_demo_answers_questions_and_stays_apart_from_the_real_school(
    rollbook: Run, tmp_path: Path, service: Service
) -> None:
    done = rollbook("demo", "--days", "3", "--students", "80")
    assert done.returncode == 0, done.stderr
    for heading in ("What was synced", "What changed last night", "The file", "The UI", "rollbook serve --demo"):
        assert heading in done.stdout
    synced = "SELECT COUNT(*), MIN(snapshot_date), MAX(snapshot_date) FROM ops.syncs"
    file = tmp_path / "warehouse" / "demo" / "rollbook.duckdb"
    assert rows(file, synced) == [(3, TODAY - timedelta(days=2), TODAY)]
    assert [p.name for p in (tmp_path / "warehouse").iterdir()] == ["demo"]
    assert rollbook("sync", **at(service)).returncode == 0
    assert "Linden Vale School" not in rollbook("status").stdout
    assert "Linden Vale School" in rollbook("status", "--demo").stdout
    assert (
        f"Rebuilt 2 days: {YESTERDAY} to {TODAY}." in rollbook("backfill", str(YESTERDAY), str(TODAY), "--demo").stdout
    )
    assert [runs(tmp_path / "home"), runs(file.parent / "dagster_home")] == [0, 1]
    again = rollbook("demo", "--days", "2", "--students", "80")
    assert again.returncode == 0, again.stderr
    assert rows(file, synced) == [(2, YESTERDAY, TODAY)]
    school = "SELECT school_id, (SELECT COUNT(*) FROM students) FROM institution"
    assert published(tmp_path, school) == [(service.school["id"], len(service.students))]


def test_serve_names_an_unusable_dagster_home_and_makes_a_missing_one(
    rollbook: Run, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for wrong, says in {
        "dagster": f"DAGSTER_HOME=dagster must be a whole path, such as {tmp_path / 'dagster'}",
        str(tmp_path / "file"): "is a file: set it to a folder",
        "/proc/dagster": "cannot be made or written to (No such file or directory)",
    }.items():
        done = rollbook("serve", DAGSTER_HOME=wrong, **at(service))
        assert (done.returncode, says in done.stderr) == (2, True), done.stderr
        assert rollbook("sync", DAGSTER_HOME=wrong, **at(service)).returncode == 0
    new = tmp_path / "new" / "home"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        rollbook("serve", "--port", str(taken.getsockname()[1]), DAGSTER_HOME=str(new), **at(service))
    assert (new / "dagster.yaml").read_bytes() == CONFIGURATION.read_bytes()
    assert new.stat().st_mode & 0o777 == 0o700
