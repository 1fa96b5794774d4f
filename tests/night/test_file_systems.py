"""Missing features of a network share are told with the cause and the file system, and nothing is lost."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollbook.errors import MachineError
from rollbook.util import files, machine
from tests.support.nights import House, new_house
from tests.support.processes.machines import disk
from tests.support.reading import rows
from tests.support.records import student, students
from tests.support.tiers import weekly

pytestmark = pytest.mark.nights


@pytest.fixture
def school_of_5() -> Iterator[House]:
    with new_house(students(5)) as house:
        yield house.at(1)


def refuse(number: int, *, wanted: Any = lambda *_: True, call: Any = None) -> Any:
    """A system call that answers with an errno where `wanted`."""

    def refusing(*arguments: Any, **named: Any) -> Any:
        if wanted(*arguments):
            raise OSError(number, os.strerror(number))
        return call(*arguments, **named)

    return refusing


@pytest.mark.parametrize("number", [errno.ENOLCK, weekly(errno.ENOSYS), weekly(errno.EOPNOTSUPP)])
def test_a_file_system_without_locks_is_refused_by_name(
    school_of_5: House, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "flock", refuse(number))
    with pytest.raises(MachineError) as refused:
        school_of_5.sync()
    kind = machine.file_system(school_of_5.warehouse)
    assert f"({kind}) has no locks ({os.strerror(number)})" in refused.value.message
    assert "or keep that folder on a local disk" in refused.value.message
    assert not school_of_5.published.exists()


@pytest.mark.parametrize("number", [errno.EINVAL, weekly(errno.EACCES), weekly(errno.ENOTSUP)])
def test_a_folder_that_cannot_be_flushed_is_one_warning(
    school_of_5: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    is_folder = lambda fd: stat.S_ISDIR(os.fstat(fd).st_mode)  # noqa: E731
    monkeypatch.setattr(os, "fsync", refuse(number, wanted=is_folder, call=os.fsync))
    monkeypatch.setattr(files, "reported_disks", set())
    with caplog.at_level(logging.WARNING):
        school_of_5.sync()
        school_of_5.night(2, students(6))
    assert school_of_5.query("SELECT COUNT(*) FROM students") == [(6,)]
    warnings = [line for line in caplog.messages if "cannot flush a folder" in line]
    assert len(warnings) == 1
    assert machine.file_system(school_of_5.warehouse) in warnings[0]


def test_a_file_that_cannot_be_flushed_is_no_success(school_of_5: House, monkeypatch: pytest.MonkeyPatch) -> None:
    is_file = lambda fd: stat.S_ISREG(os.fstat(fd).st_mode)  # noqa: E731
    monkeypatch.setattr(os, "fsync", refuse(errno.EIO, wanted=is_file, call=os.fsync))
    with pytest.raises(MachineError, match="reports an error"):
        school_of_5.sync()


def refused_modes(monkeypatch: pytest.MonkeyPatch, *, left: int, silently: bool) -> None:
    """A share that gives everything the same modes, and refuses to change modes, or ignores the change."""
    real = os.stat

    def change(*_: Any, **__: Any) -> None:
        if not silently:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def look(*arguments: Any, **named: Any) -> os.stat_result:
        status = real(*arguments, **named)
        mode = (stat.S_IFMT(status.st_mode)) | (files.folder_mode(left) if stat.S_ISDIR(status.st_mode) else left)
        return os.stat_result((mode, *status[1:]), {"st_mtime_ns": status.st_mtime_ns, "st_blocks": status.st_blocks})

    monkeypatch.setattr(Path, "chmod", change)
    monkeypatch.setattr(Path, "stat", lambda self, **named: look(self, **named))


@pytest.mark.parametrize("silently", [False, True])
def test_where_files_cannot_be_made_private_nothing_is_written(
    school_of_5: House, monkeypatch: pytest.MonkeyPatch, *, silently: bool
) -> None:
    refused_modes(monkeypatch, left=0o644, silently=silently)
    with pytest.raises(MachineError) as refused:
        school_of_5.sync()
    assert (
        f"its file system ({machine.file_system(school_of_5.warehouse)}) leaves it the mode 755"
        in refused.value.message
    )
    assert "other accounts of this machine could read" in refused.value.message
    assert not (school_of_5.warehouse / "raw").exists()


@pytest.mark.parametrize("silently", [False, True])
def test_a_share_that_is_mounted_for_this_account_only_needs_no_modes(
    school_of_5: House, monkeypatch: pytest.MonkeyPatch, *, silently: bool
) -> None:
    """The published file may then not be shared either, which is no reason to refuse."""
    refused_modes(monkeypatch, left=0o600, silently=silently)
    school_of_5.sync(over={"published_mode": "0640"})
    assert school_of_5.query("SELECT COUNT(*) FROM students") == [(5,)]


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a file system takes root")
def test_the_file_system_is_named_by_its_nearest_mount() -> None:
    with disk() as mounted:
        assert machine.file_system(mounted.path / "not" / "there") == "tmpfs"
    assert machine.file_system(Path("/proc/self")) == "proc"


@pytest.mark.parametrize("number", [errno.EBUSY, weekly(errno.ETXTBSY), weekly(errno.EACCES)])
def test_a_rename_that_is_refused_for_a_moment_is_tried_again(
    school_of_5: House, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(files, "RETRY_WAITS", (0, 0, 0))
    tries: dict[str, int] = {}

    def often(source: Path, target: Path) -> bool:
        tries[str(target)] = tries.get(str(target), 0) + 1
        return tries[str(target)] < 4

    monkeypatch.setattr(Path, "replace", refuse(number, wanted=often, call=Path.replace))
    school_of_5.sync()
    school_of_5.night(2, [student(1, name="Another"), *students(4, first=2)])
    assert school_of_5.query("SELECT name FROM students WHERE student_id = 1") == [("Another",)]


@pytest.mark.parametrize("number", [errno.EBUSY, weekly(errno.EACCES)])
def test_a_refused_rename_is_told_and_the_next_sync_recovers(
    school_of_5: House, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    school_of_5.sync()
    before = school_of_5.state()
    with monkeypatch.context() as patched:
        patched.setattr(files, "RETRY_WAITS", (0, 0, 0))
        published = lambda _, target: target == school_of_5.published  # noqa: E731
        patched.setattr(Path, "replace", refuse(number, wanted=published, call=Path.replace))
        with pytest.raises(MachineError) as refused:
            school_of_5.night(2, students(6))
    assert refused.value.message.startswith(f"{school_of_5.published} cannot be replaced: another program has it open")
    assert school_of_5.state()["rollbook.duckdb"] == before["rollbook.duckdb"]
    school_of_5.sync()
    assert school_of_5.query("SELECT COUNT(*) FROM students") == [(6,)]
    assert rows(school_of_5.published, "SELECT COUNT(*) FROM history.students WHERE student_id = 6") == [(1,)]
