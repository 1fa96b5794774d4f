"""Damage to what is in raw/ is noticed and named with what to do, and never read as something else (G4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollbook.errors import DamagedError
from rollbook.landing.manifest import Manifest
from rollbook.landing.raw import RawStore
from tests.landing.landings import DAY, folder, full, land


def read_all(raw: RawStore, done: Manifest) -> None:
    for set_name in ("auth", "students", "classes", "details"):
        list(raw.open(done).bodies(set_name))


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x01
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["bodies.zst", "pages.jsonl"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_damage_is_noticed_and_named_with_what_to_do(raw: RawStore, name: str, how: str) -> None:
    done, _ = full(raw)
    path = folder(raw) / name
    if how == "gone":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-30])
    else:
        flip(path, path.stat().st_size // 2)
    with pytest.raises(DamagedError, match=rf"raw/snapshot_date={DAY}/landing=1/{name} .*backup.*rollbook rebuild"):
        read_all(raw, done)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"snapshot_date": "2026-11-20"}', b"\xff\xfe", None],
)
def test_a_manifest_that_cannot_be_read_is_named(raw: RawStore, content: bytes | None) -> None:
    land(raw)
    path = folder(raw) / "manifest.json"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(DamagedError, match=rf"raw/snapshot_date={DAY}/landing=1/manifest.json"):
        raw.manifests()


def test_a_manifest_with_one_other_byte_is_damaged(raw: RawStore) -> None:
    full(raw)
    path = folder(raw) / "manifest.json"
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(DamagedError):
            RawStore(raw.root).manifests()
