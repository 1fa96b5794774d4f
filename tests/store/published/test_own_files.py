"""Which database files are Rollbook's own, by the notes about them."""

import shutil
from pathlib import Path

import pytest

from pipelines.store.published.own_files import OwnFiles


@pytest.fixture
def own(tmp_path: Path) -> OwnFiles:
    return OwnFiles(tmp_path)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "rollbook.duckdb"
    path.write_bytes(b"as Rollbook wrote it")
    return path


@pytest.fixture
def copy(written: Path) -> Path:
    return Path(shutil.copyfile(written, written.with_name("copy")))


def test_a_file_and_its_copy_are_recognised_and_a_changed_one_is_not(own: OwnFiles, written: Path, copy: Path) -> None:
    own.note(written)
    assert own.recognises(written)
    assert own.recognises(copy)
    written.write_bytes(b"as another wrote it.")
    assert not own.recognises(written)


def test_a_writer_that_finds_a_file_without_a_digest_reads_it(own: OwnFiles, written: Path, copy: Path) -> None:
    own.note(written, unread=True)  # and the writer was killed before it read the file
    assert own.recognises(written, noting=False)
    assert not own.recognises(copy)
    assert own.recognises(written)
    assert own.recognises(copy)


def test_the_digest_joins_what_was_noted_of_the_file_before(own: OwnFiles, written: Path) -> None:
    own.note(written, unread=True)
    own.note(written)
    assert len(own.path.read_bytes().split(b'"inode"')) == 2


def test_a_file_that_is_no_longer_vouched_for_takes_its_copies_with_it(
    own: OwnFiles, written: Path, copy: Path
) -> None:
    own.note(written)
    assert own.recognises(copy)
    own.forget(written)
    assert not own.recognises(written)
    assert not own.recognises(copy)


def test_forgetting_an_unread_file_leaves_the_others_that_are_unread(own: OwnFiles, written: Path) -> None:
    other = written.with_name("other")
    other.write_bytes(b"another of Rollbook's")
    own.note(written, other, unread=True)
    own.forget(written)
    assert own.recognises(other)
    assert not own.recognises(written)
