"""Small files that are read often are decoded once, until they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollbook.util import files


def test_a_file_is_decoded_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    decoded: list[bytes] = []

    def decode(content: bytes, _path: str) -> bytes:
        decoded.append(content)
        if content == b"no":
            raise ValueError("not JSON")
        return content

    read = files.Decoded(decode).read
    files.write(path, b"one")
    assert (read(str(path)), read(str(path)), decoded) == (b"one", b"one", [b"one"])
    files.write(path, b"two")
    assert (read(str(path)), decoded) == (b"two", [b"one", b"two"])
    files.write(path, b"no")
    for _ in range(2):
        with pytest.raises(ValueError, match="not JSON"):
            read(str(path))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read(str(path))


def test_a_folder_that_is_missing_or_a_file_has_no_names(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert (files.names(tmp_path), files.names(tmp_path / "file"), files.names(tmp_path / "gone")) == (["file"], [], [])


def test_nothing_is_written_through_a_link_in_the_temporary_place(tmp_path: Path) -> None:
    victim, target = tmp_path / "victim", tmp_path / "out" / "data.md"
    target.parent.mkdir()
    victim.write_text("mine")
    planted = target.with_name(f".{target.name}{files.PARTIAL}")
    planted.symlink_to(victim)
    files.write(target, b"new")
    assert (victim.read_text(), target.read_text(), planted.exists()) == ("mine", "new", False)
