"""What people wrote and made of a student: reasons, lists, pages, exports, alerts, logs. All of it goes with the student,
here and in the copy, and stays out after an old copy was put back.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rollbook.errors import ArgumentError
from rollbook.features.alerts.alerts import AlertKind, Alerts, Outcome
from rollbook.features.mirror.mirror import restore
from rollbook.features.mirror.settings import MirrorSettings
from rollbook.features.pages.commands import write_pages
from rollbook.features.pages.progress import Chosen
from rollbook.landing.bodies import MANIFEST, encode
from rollbook.landing.manifest import Approval
from rollbook.night import discard as discards
from rollbook.night.past import always
from rollbook.reading import access
from rollbook.reading.formats import Format
from rollbook.reading.query import export
from rollbook.rights import erasure as erasing
from rollbook.util import files
from rollbook.views import contacted
from tests.support.nights import House, new_house, night
from tests.support.processes import canary
from tests.support.records import classes, students
from tests.support.warehouses.erasures import erase

pytestmark = pytest.mark.nights

REASON = f"Zebedee Canarybird's mother asked: {canary.EMAIL}, {canary.REFERENCE}, {canary.ID}"
OLD_CERTIFICATE = f"""# Erasure 1

Reason: sister of Zebedee Canarybird

| what | count |
|---|--:|
| landings with the student, in raw/ | 12 |

Deleted, since they may have held the student:

- `exports/pages/all/students/{canary.ID}.html`
- `exports/Canarybird.csv`

Still to do, by a person:

- Backups
"""


@pytest.fixture
def written_about(tmp_path: Path) -> Iterator[House]:
    """A house with a copy, in which people wrote about the student wherever they can."""
    given = {"lake": f"file://{tmp_path / 'lake'}", "notify": "json://127.0.0.1:9", "mirror_proof_minutes": 0}
    with new_house([*students(6), canary.canary()], classes(2), **given) as house:
        for number in (1, 2, 3):
            house.night(number)
        write_about(house)
        yield house


def write_about(house: House) -> None:
    root, rollbook = house.warehouse, house.rollbook()
    erase(house, 6)
    (root / "private" / "erasures" / "certificate-1.md").write_text(OLD_CERTIFICATE)
    discards.discard(rollbook.writer(), night(2), reason=REASON, confirm=always)
    manifest = house.landings(night(3))[-1]
    approval = Approval(by="head", approved_at=house.now, reason=REASON, held="20 go", held_at=house.now, counts=())
    approved = msgspec.structs.replace(manifest, approval=approval)
    files.write(rollbook.raw.open(manifest).path / MANIFEST, encode(approved))
    erasing.hold(rollbook.writer(), 2, reason="case 3, brother of Zebedee Canarybird")
    contacted.add(root, canary.ID, night(3), night(20))
    with (root / "contacted.csv").open("a") as file:
        file.write(f"2,{night(3)},{night(20)},brother of Zebedee\n")
    (root / "exports" / "Zebedee Canarybird" / "empty").mkdir(parents=True)
    export(root / "rollbook.duckdb", "roster", Format.XLSX, root / "exports" / "roster.xlsx", scratch=root / "build")
    write_pages(root, Chosen(student=canary.ID), since=None, pdf=False)
    access.note(root, "pages", students=1, what=f"student-{canary.ID}")
    text = f"The service lists ids more than once, such as 9, {canary.ID}"
    house.rollbook().listener(Alerts).report(Outcome("1", AlertKind.UNPROVEN, night(3), text))


def names_of(root: Path) -> list[str]:
    """The names of all files and folders: an empty folder may be named after a student, too."""
    return [str(path.relative_to(root)).lower() for path in root.rglob("*")]


def assert_gone(house: House, lake: Path, into: Path) -> None:
    for root in (house.warehouse, lake):
        assert canary.found(root) == {}
        assert [name for name in names_of(root) if any(t.lower() in name for t in canary.TEXTS)] == []
    restore(MirrorSettings.of(house.settings()).lake, "", into)
    assert canary.found(into) == {}
    shutil.rmtree(into)


def test_what_people_wrote_about_a_student_goes_with_the_student(written_about: House, tmp_path: Path) -> None:
    lake, into = tmp_path / "lake", tmp_path / "into"
    there = {name.partition("/")[0] for name in canary.found(written_about.warehouse)}
    assert there >= {"raw", "private", "exports", "contacted.csv", "build", "rollbook.duckdb"}
    assert erasing.holdings(written_about.rollbook().writer(), canary.ID).counts["reasons"] == 2
    for reason in ("Canarybird, case 3", f"the girl {canary.ID}", "about zebedee", canary.REFERENCE):
        with pytest.raises(ArgumentError, match="The reason identifies the student"):
            erase(written_about, reason=reason)
    backup = tmp_path / "backup"
    shutil.copytree(written_about.warehouse, backup, symlinks=True)
    certificate = erase(written_about)
    assert_gone(written_about, lake, into)
    counts = {key: certificate.counts[key] for key in ("reasons", "contacted", "exports")}
    assert counts == {"reasons": 2, "contacted": 1, "exports": 3}
    assert "| files in exports/, deleted whatever they hold | 3 |" in certificate.text
    assert [*(written_about.warehouse / "exports").iterdir()] == []
    replaced = "(erased)'s mother asked: (erased), (erased), (erased)"
    assert [d.reason for _, d in written_about.rollbook().raw.discarded()] == [replaced]
    assert (approval := written_about.landings(night(3))[-1].approval)
    assert approval.reason == replaced
    assert written_about.query("SELECT reason FROM ops.syncs WHERE outcome = 'discarded'") == [(replaced,)]
    (hold,) = written_about.rollbook().raw.erasure_register.read().holds
    assert hold.reason == "case 3, brother of (erased)"
    lines = (written_about.warehouse / "contacted.csv").read_text().splitlines()
    assert lines == ["student_id,on,until,by", f"2,{night(3)},{night(20)},brother of (erased)"]
    assert [entry.what for entry in access.entries(written_about.warehouse)[0] if entry.kind == "pages"] == [
        "student"
    ] * 2
    # An old copy of everything but the register is put back, and the next writer takes the student out again.
    for part in ("raw", "snapshots", "published", "contacted.csv", "build/alerts.json", "exports"):
        target, source = written_about.warehouse / part, backup / part
        if source.is_dir() and part != "exports":
            shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
        elif part != "exports":
            shutil.copy(source, target)
    for path in (*(backup / "private").glob("access-*"), *(backup / "private" / "erasures").glob("certificate-1.md")):
        shutil.copy(path, written_about.warehouse / path.relative_to(backup))
    assert canary.found(written_about.warehouse)
    with written_about.rollbook().writer().writing():
        pass
    assert_gone(written_about, lake, into)
    assert written_about.landings(night(3))[-1].approval == approval


def test_contacted_csv_of_a_readmitted_id_keeps_the_new_persons_lines() -> None:
    with new_house(students(3)) as house:
        house.night(1)
        erase(house)
        house.at(10)
        erasing.readmit(house.rollbook().writer(), canary.ID)
        old, new = night(3), night(20)
        (house.warehouse / "contacted.csv").write_text(
            f"student_id,on,until\n{canary.ID},{old},{night(60)}\n{canary.ID},{new},{night(60)}\n"
        )
        with house.rollbook().writer().writing():
            pass
        assert [(each.student_id, each.on) for each in contacted.read(house.warehouse)] == [(canary.ID, new)]
