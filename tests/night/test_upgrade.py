"""A warehouse of an earlier format is upgraded by the first writer, also if that is killed; none is lost on the way.

There is no earlier format yet, so one is invented: in it, a landing `ended_at`, and a sync had a `decision`.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rollbook.errors import HeldError, OtherVersionError
from rollbook.features.explore.book import Book
from rollbook.landing import formats
from rollbook.landing.formats import FORMAT, Upgrade
from rollbook.night import past
from rollbook.night.discard import discard
from rollbook.night.past import always
from rollbook.rights.erasure import erase
from tests.support.nights import SET_OF, House, folder, new_house, night
from tests.support.processes.kills import die_at_step
from tests.support.records import students
from tests.support.tiers import daily

INVENTED = FORMAT - 1


def renamed(content: dict[str, Any]) -> dict[str, Any]:
    """A manifest of the invented format, as it is called now."""
    return {"finished_at" if name == "ended_at" else name: value for name, value in content.items()}


UPGRADE = Upgrade({"Manifest": renamed}, ("ALTER TABLE ops.syncs RENAME decision TO verdict",))


@pytest.fixture(scope="module")
def played() -> Iterator[House]:
    """Nights with a hold, a discard, an erasure and expired days."""
    with new_house(students(30), keep_days=3) as house:
        for number in range(1, 6):
            house.night(number, students=students(30 - number))
        discard(house.rollbook().writer(), night(4), reason="wrong")
        with pytest.raises(HeldError):
            house.night(6, students=students(12))
        erase(house.rollbook().writer(), 3, reason="case 12", confirm=lambda _: True)
        house.service.students = students(25)
        yield house.at(7)


@pytest.fixture
def of_invented_format(played: House) -> Iterator[House]:
    """The same warehouse, as an earlier version would have written it."""
    with folder() as aside:
        shutil.copytree(played.warehouse, aside / "w", symlinks=True)
        house = House(aside / "w", played.service, **played.over)
        house.now = played.now
        for path in house.warehouse.rglob("*.json"):
            if path.name != "discard.json":
                write_earlier(path)
        make_published_earlier(house)
        yield house


def write_earlier(path: Path) -> None:
    """Write a file as the invented format has it."""
    content = json.loads(path.read_bytes()) | {"format": INVENTED}
    if path.name != "manifest.json":
        path.write_text(json.dumps(content))
        return
    content = {"ended_at" if name == "finished_at" else name: value for name, value in content.items()}
    content.pop("checksum")
    body = json.dumps(content, indent=2).encode().removesuffix(b"\n}")
    path.write_bytes(body + b',\n  "checksum": "' + hashlib.sha256(body).hexdigest().encode() + b'"\n}\n')


def make_published_earlier(house: House) -> None:
    """Make the published files as the invented format has them; the warehouse knows them by their digests."""
    path = house.warehouse / "private" / "erasures" / "published.json"
    files = {}
    for file in sorted((house.warehouse / "published").glob("*.duckdb")):
        file.chmod(0o600)
        with duckdb.connect(file) as con:
            con.execute(f"UPDATE spans.version SET format = {INVENTED}")
            con.execute("ALTER TABLE ops.syncs RENAME verdict TO decision")
        file.chmod(0o400)
        files[hashlib.sha256(file.read_bytes()).hexdigest()] = 1
    path.write_text(json.dumps({"format": INVENTED, "files": files}))


def shown(house: House) -> dict[str, list[Any]]:
    """What readers have."""
    names = [f"{schema}.{table}" for table in SET_OF for schema in ("main", "history")]
    return {name: house.query(f"FROM {name} ORDER BY ALL") for name in (*names, "main.changes", "ops.syncs")}


def upgrade(house: House) -> None:
    """What the first writer does before anything else."""
    with house.rollbook().writer().writing():
        pass


def formats_of(house: House) -> set[int]:
    """The formats of the published files."""
    numbers = set()
    for file in (house.warehouse / "published").glob("rollbook.*.duckdb"):
        with duckdb.connect(file, read_only=True) as con:
            numbers |= {row[0] for row in con.execute("SELECT format FROM spans.version").fetchall()}
    return numbers


def test_the_first_writer_upgrades_what_an_earlier_version_wrote(
    played: House, of_invented_format: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "UPGRADES", {INVENTED: UPGRADE})
    with pytest.raises(OtherVersionError, match="by an earlier version of Rollbook .* run `rollbook sync`"):
        Book(of_invented_format.warehouse).open().__enter__()
    upgrade(of_invented_format)
    assert formats_of(of_invented_format) == {FORMAT}
    assert shown(of_invented_format) == shown(played)
    of_invented_format.sync()
    past.rebuild(of_invented_format.rollbook().writer(), confirm=always, accept_loss=True)
    assert of_invented_format.examined() == {rule: [] for rule in of_invented_format.examined()}


@pytest.mark.parametrize("step", daily(range(1, 19), 2, 9))
def test_a_killed_upgrade_is_finished_by_the_next_writer(
    step: int, played: House, of_invented_format: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "UPGRADES", {INVENTED: UPGRADE})

    def dying() -> None:
        die_at_step(step)
        upgrade(of_invented_format)

    process = multiprocessing.get_context("fork").Process(target=dying)
    process.start()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)
    upgrade(of_invented_format)
    assert formats_of(of_invented_format) == {FORMAT}
    assert shown(of_invented_format) == shown(played)


def test_an_earlier_format_without_an_upgrade_is_refused_in_a_sentence(of_invented_format: House) -> None:
    with pytest.raises(OtherVersionError, match="was written before Rollbook's first format"):
        of_invented_format.sync()
