"""The database files of this warehouse, by the mark at their end."""

import shutil
from pathlib import Path

import pytest

from rollbook.landing.erased import ErasureRegister
from rollbook.store.published import OwnFiles

CONTENT = b"as Rollbook wrote it"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "rollbook.duckdb"
    path.write_bytes(CONTENT)
    return path


def own(folder: Path) -> OwnFiles:
    return OwnFiles(ErasureRegister(folder / "private" / "erasures"))


def test_a_marked_file_and_its_copies_are_recognised_and_no_other(tmp_path: Path, written: Path) -> None:
    assert not own(tmp_path).is_unmodified(written)
    own(tmp_path).mark(written)
    copy = Path(shutil.copyfile(written, tmp_path / "copy"))
    assert own(tmp_path).is_unmodified(written)
    assert own(tmp_path).is_unmodified(copy)
    own(tmp_path).copy(written, tmp_path / "next")
    assert (tmp_path / "next").read_bytes() == CONTENT
    own(tmp_path / "another").mark(tmp_path / "next")
    assert not own(tmp_path).is_unmodified(tmp_path / "next")
    whole = written.read_bytes()
    for changed in (b"A" + whole[1:], whole[:-1], whole + b"x", whole[:-33] + b"x" + whole[-32:], whole[-32:], b""):
        written.write_bytes(changed)
        assert not own(tmp_path).is_unmodified(written)
    shutil.rmtree(tmp_path / "private")
    assert not own(tmp_path).is_unmodified(copy)


def test_a_file_that_is_damaged_behind_its_time_and_size_is_found_once_it_is_read_again(
    tmp_path: Path, written: Path
) -> None:
    files = own(tmp_path)
    files.mark(written)
    assert files.is_unmodified(written)
    with written.open("r+b") as opened:
        opened.write(b"X")
    files.forget()
    assert not files.is_unmodified(written)
