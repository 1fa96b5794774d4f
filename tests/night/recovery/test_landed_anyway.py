"""However `raw/` is damaged, tonight is fetched and kept; once the file is put back, the night counts (G4)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rollbook.errors import DamagedError
from rollbook.landing.manifest import Manifest, Verdict
from rollbook.landing.raw import Expired, RawStore
from tests.support.nights import Expected, House, night
from tests.support.records import classes, students
from tests.support.tiers import daily

pytestmark = pytest.mark.nights

MANIFESTS = [f"raw/snapshot_date={night(n)}/landing=1/manifest.json" for n in (1, 2, 3)]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1])


def make_a_folder_of_it(path: Path) -> None:
    path.unlink()
    path.mkdir()


CASES = [(name, damage) for name in MANIFESTS for damage in (flip, cut, Path.unlink, make_a_folder_of_it)]
CASES += [("raw/expired.json", cut), ("raw/expired.json", make_a_folder_of_it)]


@pytest.mark.parametrize("case", daily(CASES, (MANIFESTS[0], flip), (MANIFESTS[2], cut), CASES[-1]))
def test_a_night_is_fetched_and_kept_whatever_is_damaged(
    after_three_nights: House, expected: Expected, case: tuple[str, Callable[[Path], None]]
) -> None:
    name, damage = case
    path = after_three_nights.warehouse / name
    if not path.exists():
        path.write_bytes(msgspec.json.encode(Expired(days={})))
    aside = path.with_name("kept")
    shutil.copyfile(path, aside)
    damage(path)
    after_three_nights.service.students = students(59)
    after_three_nights.service.requests.clear()
    with pytest.raises(DamagedError, match=path.name):
        after_three_nights.sync()
    assert after_three_nights.service.requests
    (landed,) = after_three_nights.landings(night(4))
    assert landed.verdict is None
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    aside.rename(path)
    after_three_nights.at(5).sync()
    expected.night(4, students(59), classes(4), unproven=["students", "classes"])
    assert after_three_nights.tables() == expected.night(5, students(59), classes(4)).tables()


@pytest.mark.story
def test_a_blocked_landing_proves_nothing_even_if_killed_while_landing(
    after_three_nights: House, expected: Expected
) -> None:
    manifest = after_three_nights.warehouse / MANIFESTS[0]
    content = manifest.read_bytes()
    manifest.write_bytes(b"")
    after_three_nights.service.students = students(59)
    commit = RawStore.commit

    def killed(store: RawStore, partial: Path, draft: Manifest) -> None:
        commit(store, partial, draft)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RawStore, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            after_three_nights.sync()
    manifest.write_bytes(content)
    after_three_nights.service.students = students(60)
    after_three_nights.at(5).sync()
    expected.night(4, students(59), classes(4), unproven=["students", "classes"])
    assert after_three_nights.tables() == expected.night(5, students(60), classes(4)).tables()


def test_another_institutions_landing_never_counts_even_if_fetched_while_blocked(
    after_three_nights: House, expected: Expected
) -> None:
    manifest = after_three_nights.warehouse / MANIFESTS[0]
    aside = {path: path.read_bytes() for path in after_three_nights.warehouse.glob("raw/*/*/manifest.json")}
    for path in aside:
        path.write_bytes(b"")
    after_three_nights.lose_published()
    after_three_nights.lose_kept()
    ours, after_three_nights.service.school = (
        after_three_nights.service.school,
        {"id": 42, "name": "Another School", "key": "another-school"},
    )
    with pytest.raises(DamagedError, match=manifest.name):
        after_three_nights.sync()
    for path, content in aside.items():
        path.write_bytes(content)
    after_three_nights.service.school = ours
    after_three_nights.at(5).sync()
    (landed,) = after_three_nights.landings(night(4))
    assert (landed.verdict, "institution 42" in landed.reason) == (Verdict.FAILED, True)
    assert after_three_nights.tables() == expected.night(5, after_three_nights.service.students, classes(4)).tables()
