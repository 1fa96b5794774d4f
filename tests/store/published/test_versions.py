"""The published versions, and the link that leads readers to the newest."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import time_machine

from rollbook.store.published import KEPT, Versions, target
from tests.support.nights import folder
from tests.support.processes.commands import program


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    versions = Versions(tmp_path, 0o640, 0o750)
    versions.prepare()
    return versions


def publish(versions: Versions, content: str) -> Path:
    file = versions.link.with_name("next")
    file.write_text(content)
    version = versions.add(file)
    versions.activate(version)
    versions.retire()
    return version


def contents(paths: list[Path]) -> list[str]:
    return [path.read_text() for path in paths]


def test_readers_get_the_newest_and_the_last_few_are_kept(versions: Versions) -> None:
    assert versions.newest() is None
    for n in range(7):
        newest = publish(versions, f"night {n}")
        assert versions.newest() == newest
        assert versions.link.read_text() == f"night {n}"
    assert contents(versions.kept()) == ["night 5", "night 4", "night 3"]
    assert len(versions.all()) == 1 + KEPT


def test_the_link_is_relative_and_has_the_set_mode(versions: Versions, tmp_path: Path) -> None:
    version = publish(versions, "x")
    assert version.stat().st_mode & 0o777 == 0o440
    assert versions.folder.stat().st_mode & 0o777 == 0o750
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert (moved / "rollbook.duckdb").read_text() == "x"
    assert target(moved / "rollbook.duckdb") == moved / "published" / version.name


def test_no_name_is_used_twice_when_the_clock_is_set_back(versions: Versions) -> None:
    named = []
    for at in ("2026-11-20T02:00Z", "2026-11-19T00:00Z", "2000-01-01T00:00Z"):
        with time_machine.travel(at, tick=False):
            named.append(publish(versions, at).name)
    assert named == [f"rollbook.2026-11-20T02-00-00-00000{n}.duckdb" for n in range(3)]


def test_a_version_that_a_killed_writer_did_not_show_is_removed(versions: Versions) -> None:
    shown = publish(versions, "shown")
    (versions.link.with_name("next")).write_text("not shown")
    versions.add(versions.link.with_name("next"))
    assert versions.newest() == shown
    assert contents(versions.kept()) == []
    versions.sweep()
    assert versions.all() == [shown]


def test_a_copy_that_a_killed_writer_left_half_done_is_removed(versions: Versions) -> None:
    """Where the disk knows no hard links, an earlier version is copied: killed then, pupils' records would stay."""
    shown = publish(versions, "shown")
    half_done = [versions.folder / f".{name}.partial" for name in (shown.name, "newest.txt")]
    for left in half_done:
        left.write_text("half")
    versions.sweep()
    assert list(versions.folder.iterdir()) == [shown]


def test_a_disk_without_links_gets_a_copy_and_a_pointer(versions: Versions, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refused)
    monkeypatch.setattr(os, "link", refused)
    for n in range(6):
        newest = publish(versions, f"night {n}")
        assert not versions.link.is_symlink()
        assert versions.link.read_text() == f"night {n}"
        assert versions.pointer.read_text() == f"{newest.name}\n"
        assert versions.newest() == newest
    assert contents(versions.kept()) == ["night 4", "night 3", "night 2"]
    versions.activate(versions.republish(versions.kept()[-1]))
    assert versions.link.read_text() == "night 2"
    versions.sweep()
    assert versions.link.read_text() == "night 2"


def test_a_link_that_leads_out_of_the_folder_is_not_a_version(versions: Versions, tmp_path: Path) -> None:
    version = publish(versions, "x")
    elsewhere = Path(shutil.copyfile(version, tmp_path / "elsewhere.duckdb"))
    for leads_to in (elsewhere, "elsewhere.duckdb", "published/../elsewhere.duckdb", "published/missing"):
        versions.link.unlink()
        versions.link.symlink_to(leads_to)
        assert versions.newest() is None
        assert target(versions.link) is None


# Counts how often there is nothing at a path, until its input ends.
WATCHER = """
import os, sys, threading
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
print("watching", flush=True)
missing = 0
while not stop.is_set():
    missing += not os.path.lexists(sys.argv[1])
print(missing)
"""


def test_readers_find_a_file_at_any_moment_of_a_swap() -> None:
    with folder() as root:  # in memory: a disk would take a minute for as many
        versions = Versions(root, 0o600, 0o700)
        versions.prepare()
        for name in ("a", "b"):
            (versions.folder / f"rollbook.{name}.duckdb").write_text(name)
        versions.activate(versions.all()[0])
        with program("-c", WATCHER, versions.link) as watcher:
            assert watcher.read() == "watching"
            for turn in range(3000):
                versions.activate(versions.all()[turn % 2])
            assert watcher.end() == ["0"], "times that nothing was at the link"
