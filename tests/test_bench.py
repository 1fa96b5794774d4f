"""The benchmark's own arithmetic: what truly changed, what was lost, what a process took. Nothing is timed here."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.bench import meter
from tests.bench.faulty import Outcome
from tests.bench.meter import Ran, RunError
from tests.bench.nightly import Measured, Night, Nightly, compared
from tests.bench.peers import environments
from tests.bench.tools import PEERS, ROLLBOOK
from tests.bench.truth import Changes, Loss, changed, loss
from tests.support.records import student

ROWS = [{"class_id": 1, "class_title": "Ash"}, {"class_id": 2, "class_title": "Elm"}]


def changes(before: dict[str, Any], after: dict[str, Any]) -> Changes:
    return changed([before], [after], "id")


def without(record: dict[str, Any], field: str) -> dict[str, Any]:
    return {k: v for k, v in record.items() if k != field}


def test_a_record_that_is_new_or_differs_has_changed_and_one_that_left_has_not() -> None:
    before = [student(1), student(2), student(3)]
    after = [student(1), student(2, name="Another"), student(4)]
    assert changed(before, after, "id") == Changes(anything=2, tracked=2)


def test_what_a_clock_moves_is_a_change_but_not_a_tracked_one() -> None:
    record = student(1)
    activity = record["activity_tracking"]
    later = {**record, "activity_tracking": {**activity, "days_since_last_activity": 99}}
    assert changes(record, later) == Changes(anything=1, tracked=0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"classes": ROWS}, {"classes": ROWS[::-1]}, id="the order of a list"),
        pytest.param({"first_name": None}, {}, id="null or missing"),
    ],
)
def test_order_and_null_are_not_tracked_changes(before: dict[str, Any], after: dict[str, Any]) -> None:
    record = without(student(1), "first_name")
    assert changes({**record, **before}, {**record, **after}) == Changes(anything=1, tracked=0)


@pytest.mark.parametrize("field", ["classes", "activity_tracking"])
def test_unstated_is_not_a_tracked_change_and_stated_again_is(field: str) -> None:
    record = {**student(1), "classes": ROWS}
    assert changes(record, without(record, field)) == Changes(anything=1, tracked=0)
    assert changes(without(record, field), record) == Changes(anything=1, tracked=1)


def test_a_list_that_was_unstated_and_is_empty_now_is_not_a_tracked_change() -> None:
    record = {**student(1), "classes": ROWS}
    assert changes(without(record, "classes"), {**record, "classes": []}) == Changes(anything=1, tracked=0)
    assert changes(record, {**record, "classes": []}) == Changes(anything=1, tracked=1)


def test_a_loss_counts_who_is_missing_and_who_should_be() -> None:
    assert loss([1, 2, 3], {3, 4}) == Loss(lost=2, left=1)


def test_the_memory_of_a_command_includes_what_it_started() -> None:
    child = "import time; taken = bytearray(80_000_000); time.sleep(1)"
    command = [
        sys.executable,
        "-c",
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print('{{}}')",
    ]
    assert meter.run(command, "key").peak_mb > 80


def test_a_command_that_takes_too_much_memory_is_stopped() -> None:
    command = [sys.executable, "-c", "import time; taken = bytearray(80_000_000); time.sleep(60)"]
    with pytest.raises(RunError, match="of memory"):
        meter.run(command, "key", most_mb=60)


def test_a_command_that_fails_says_how() -> None:
    with pytest.raises(RunError, match=re.escape("failed (exit 3): no such table")):
        meter.run([sys.executable, "-c", "import sys; print('no such table', file=sys.stderr); sys.exit(3)"], "key")


def test_a_peer_that_failed_is_shown_in_words_beside_the_others() -> None:
    night = Night(1.5, 2.0, Ran({"seconds": 3.0}, 100))
    rollbook = Measured(ROLLBOOK, [night], [night], bytes=5_000_000, written=7)
    failed = Measured(PEERS[0], failed="stopped at 18.0 GB of memory")
    found = Nightly(1000, 1, [rollbook, failed], [Ran({"seconds": 2.0}, 30)], Changes(900, 7))
    outcomes: dict[tuple[str, str], Outcome | str] = {
        ("rollbook", "empty"): Outcome(Loss(0, 0), said=True),
        ("rollbook", "moved"): Outcome(Loss(0, 0), said=False),
        ("dlt", "empty"): Outcome(Loss(100, 0), said=False),
        ("dlt", "moved"): "failed (exit 1): no answer",
    }
    console = Console(width=160, record=True, file=StringIO())
    console.print(compared(found, outcomes))
    shown = console.export_text()
    rows = [
        [cell.strip() for cell in line.strip("│\n").split("│")] for line in shown.splitlines() if line.startswith("│")
    ]
    assert rows == [
        ["bare walk", "1 (2.00 s)", "1", "30", "", "", "", "", ""],
        ["Rollbook", "1.5", "1.5", "100", "5.0", "7", "0", "0, said so", "0"],
        ["dlt, scd2", "failed", "failed", "", "", "", "", "100, silent", "failed"],
    ]
    assert "dlt, scd2: stopped at 18.0 GB of memory" in shown
    assert "dlt, scd2, lost (moved): failed (exit 1): no answer" in shown


def test_an_environment_is_made_once_and_again_when_its_pins_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []

    def install(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        made.append(command)
        (tmp_path / "place" / "peer").mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", install)
    monkeypatch.setattr(environments, "HERE", tmp_path)
    for pins, commands in (("a==1", 2), ("a==1", 2), ("a==2", 4)):
        (tmp_path / "peer.txt").write_text(pins)
        environments.interpreter("peer", tmp_path / "place")
        assert len(made) == commands


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_is_pinned_exactly_and_imports_nothing_of_ours(peer: Any) -> None:
    pins = (environments.HERE / f"{peer.script}.txt").read_text().splitlines()
    stated = [line.partition("#")[0].strip() for line in pins]
    assert [line for line in stated if line and not re.fullmatch(r"[\w.-]+(\[\w+\])?==[\w.]+", line)] == []
    script = (environments.HERE / f"{peer.script}.py").read_text()
    assert not re.search(r"^(from|import) (pipelines|tests)\b", script, re.MULTILINE)
