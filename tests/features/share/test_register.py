"""Who may open the published file from another machine."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from rollbook.errors import ArgumentError, DamagedError, MachineError, OtherVersionError, RollbookError
from rollbook.features.share.register import Reader, Register, digest
from rollbook.store.warehouse import Warehouse
from rollbook.util import files
from tests.support.processes.accounts import NOBODY

NOW = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)


def test_a_token_is_kept_as_a_digest_alone(tmp_path: Path) -> None:
    register = Register(tmp_path)
    token = register.add("ash-excel", names=False, at=NOW)
    assert register.read() == (Reader(name="ash-excel", digest=digest(token), names=False, since=NOW),)
    assert len(token) == 43
    assert all(token.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    modes = [path.stat().st_mode & 0o777 for path in (register.path.parent, register.path)]
    assert modes == [0o700, 0o600]


def test_each_reader_has_a_name_of_its_own(tmp_path: Path) -> None:
    register = Register(tmp_path)
    register.add("ash", names=True, at=NOW)
    for name in ("ash", "ASH"):
        with pytest.raises(ArgumentError, match="There is a reader ash already"):
            register.add(name, names=True, at=NOW)
    register.add("elm", names=True, at=NOW)
    with pytest.raises(ArgumentError, match="There is no reader of this name: there is ash, elm"):
        register.remove("oak")
    register.remove("ash")
    assert [each.name for each in register.read()] == ["elm"]


@pytest.mark.parametrize("name", ["", "-ash", "a b", "a\n", "[bold]", "ä", "a" * 65, "a/b", "a,b"])
def test_a_name_fits_into_a_line_of_the_log(tmp_path: Path, name: str) -> None:
    register = Register(tmp_path)
    with pytest.raises(ArgumentError, match="A name has letters, digits"):
        register.add(name, names=True, at=NOW)
    assert register.read() == ()


def test_readers_that_are_added_at_once_are_all_there(tmp_path: Path) -> None:
    def add(number: int) -> str:
        return Register(tmp_path).add(f"reader-{number}", names=True, at=NOW)

    with ThreadPoolExecutor(8) as pool:
        tokens = [*pool.map(add, range(24))]
    assert {each.digest for each in Register(tmp_path).read()} == {digest(token) for token in tokens}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", DamagedError),
        (b"{", DamagedError),
        (b"\0" * 200, DamagedError),
        (b'{"format":1,"readers":[{"name":"ash"', DamagedError),
        (b'{"format":1,"readers":[{"name":"ash","digest":"x","names":1}]}', DamagedError),
        (b'{"format":999,"readers":[]}', OtherVersionError),
    ],
)
def test_a_damaged_list_lets_nobody_in_and_is_kept(tmp_path: Path, content: bytes, kind: type[RollbookError]) -> None:
    register = Register(tmp_path)
    register.add("ash", names=True, at=NOW)
    register.path.write_bytes(content)
    with pytest.raises(kind):
        register.read()
    with pytest.raises(kind):
        register.add("elm", names=True, at=NOW)
    assert register.path.read_bytes() == content


def test_a_night_that_begins_meanwhile_loses_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse, move = Warehouse(tmp_path), files.move
    warehouse.prepare()
    swept = list[Path]()

    def after_a_sweep(source: Path, target: Path) -> Path:
        if not swept:
            swept.append(source)
            warehouse.sweep()
            assert not source.exists()
        return move(source, target)

    monkeypatch.setattr(files, "move", after_a_sweep)
    register = Register(tmp_path)
    token = register.add("ash", names=True, at=NOW)
    assert [each.digest for each in register.read()] == [digest(token)]
    assert len(swept) == 1


def test_another_account_is_told_whose_the_list_is(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only the superuser can act as another account: run this test as root")
    with TemporaryDirectory() as shared:
        root = Path(shared, "w")
        Register(root).add("ash", names=True, at=NOW)
        Path(shared).chmod(0o755)
        root.chmod(0o755)
        try:
            os.seteuid(NOBODY)
            for change in (Register(root).read, lambda: Register(root).add("elm", names=True, at=NOW)):
                with pytest.raises(MachineError):
                    change()
        finally:
            os.seteuid(0)


def test_what_root_adds_is_readable_by_the_owner(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only the superuser can give files away: run this test as root")
    os.chown(tmp_path, NOBODY, NOBODY)
    register = Register(tmp_path)
    register.add("ash", names=True, at=NOW)
    assert {path.stat().st_uid for path in (register.path, *register.path.parent.iterdir())} == {NOBODY}
