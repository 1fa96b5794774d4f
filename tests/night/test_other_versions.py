"""Files of another version of Rollbook are told from damage, and nothing is changed."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import msgspec
import pytest

from rollbook.errors import OtherVersionError
from rollbook.features.explore.book import Book
from rollbook.features.mirror.mirror import Mirror
from rollbook.landing.formats import FORMAT
from rollbook.night import past
from rollbook.reading import access
from rollbook.rights.erasure import erase
from rollbook.store.published import target
from tests.support.nights import House, findings_of, folder, new_house, status_of
from tests.support.records import students

pytestmark = pytest.mark.nights

# Files that a night needs, and files that it makes besides: a fault there is a warning.
NEEDED = (
    "raw/snapshot_date=*/landing=1/manifest.json",
    "raw/expired.json",
    "snapshots/observed/snapshot_date=*/_day.json",
    "private/erasures/register.json",
)
BESIDES = ("private/codes.json", "private/mirror.json")
OTHER = FORMAT + 1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A warehouse that has each kind of file."""
    copy = tmp_path_factory.mktemp("copy")
    with new_house(students(6), lake=copy.as_uri(), pseudonymous=True, keep_days=2) as house:
        for number in range(1, 5):
            house.night(number)
        erase(house.rollbook().writer(), 6, reason="asked", confirm=lambda _: True)
        access.note(house.warehouse, "query")
        yield house.at(5)


@pytest.fixture
def four_nights(made: House) -> Iterator[House]:
    """The same, as it was."""
    with folder() as aside:
        shutil.copytree(made.warehouse, aside / "w", symlinks=True)
        house = House(aside / "w", made.service, **made.over)
        house.now = made.now
        yield house


def change(path: Path, number: int | None) -> None:
    """Give a file another format number, or none."""
    ours, other = f'"format":{FORMAT}'.encode(), b"" if number is None else f'"format":{number}'.encode()
    content = re.sub(rb'("format": ?\d+)(, ?)?\n? *', other + (rb"\2" if other else b""), path.read_bytes(), count=1)
    assert content != path.read_bytes(), ours
    if path.name == "manifest.json":
        body, mark, _ = content.rpartition(b',\n  "checksum": "')
        content = body + mark + hashlib.sha256(body).hexdigest().encode() + b'"\n}\n'
    path.write_bytes(content)


def state(root: Path) -> dict[str, str]:
    """Every file of a warehouse that a writer keeps, with the digest."""
    paths = (p for p in root.rglob("*") if p.is_file() and "build" not in p.parts and "private" not in p.parts)
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


def test_every_file_of_ours_that_stays_has_its_format_number(four_nights: House) -> None:
    paths = [p for p in four_nights.warehouse.rglob("*.json*") if p.name not in ("pages.jsonl", "rejects.jsonl")]
    assert {p.name for p in paths} >= {"manifest.json", "expired.json", "_day.json", "register.json", "codes.json"}
    for path in paths:
        for line in path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]:
            assert msgspec.json.decode(line)["format"] == FORMAT, path
    assert four_nights.query("SELECT format FROM spans.version") == [(FORMAT,)]


@pytest.mark.parametrize(
    ("kept", "number"), [*((kept, OTHER) for kept in NEEDED), (NEEDED[0], 0), (NEEDED[0], None), (NEEDED[3], None)]
)
def test_a_file_of_another_version_is_never_called_damaged(four_nights: House, kept: str, number: int | None) -> None:
    path = max(four_nights.warehouse.glob(kept))
    change(path, number)
    before = state(four_nights.warehouse)
    says = f"{path} was written before Rollbook's first format ("
    if number == OTHER:
        says = f"{path} was written by a newer version of Rollbook"  # the manifest names ours, which fetched it
    for work in (four_nights.sync, lambda: past.rebuild(four_nights.rollbook().writer())):
        with pytest.raises(OtherVersionError) as refused:
            work()
        assert refused.value.message.startswith(says)
        assert "Nothing was changed: " in refused.value.message
        assert refused.value.exit_code == 2
    try:
        problems = status_of(four_nights.rollbook()).problems
    except OtherVersionError as error:
        problems = (error.message,)
    assert any(says in problem for problem in problems)
    assert any(finding.says.startswith(says) for finding in findings_of(four_nights.rollbook()))
    assert state(four_nights.warehouse) == before


@pytest.mark.parametrize("kept", BESIDES)
def test_an_optional_file_stays_as_another_version_wrote_it(
    four_nights: House, kept: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = four_nights.warehouse / kept
    change(path, OTHER)
    before = path.read_bytes()
    four_nights.sync()
    assert f"{path} was written by a newer version of Rollbook (format {OTHER}" in caplog.text
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (f"UPDATE spans.version SET format = {OTHER}", "rollbook.duckdb was written by a newer version of Rollbook"),
        ("ALTER TABLE spans.version DROP format", "rollbook.duckdb was written before Rollbook's first format"),
    ],
)
def test_a_published_file_of_another_version_is_kept_as_it_is(four_nights: House, statement: str, says: str) -> None:
    warehouse = four_nights.rollbook().warehouse
    newest = target(four_nights.published)
    assert newest is not None

    def amend(con: duckdb.DuckDBPyConnection) -> None:
        con.execute(statement)

    warehouse.restore(newest, amend)
    before = state(four_nights.warehouse)
    with pytest.raises(OtherVersionError, match=says):
        four_nights.sync()
    with pytest.raises(OtherVersionError, match=says), Book(four_nights.warehouse).open():
        pass
    assert state(four_nights.warehouse) == before


def test_a_log_of_another_version_is_not_counted_as_unreadable(four_nights: House) -> None:
    (path,) = (four_nights.warehouse / "private").glob("access-*.jsonl")
    change(path, OTHER)
    with pytest.raises(OtherVersionError, match=path.name):
        access.entries(four_nights.warehouse)


def test_a_copy_of_another_version_is_not_replaced(four_nights: House) -> None:
    copy = Path(str(four_nights.over["lake"]).removeprefix("file://"))
    path = max(copy.rglob("catalog-*.json"))
    before = path.read_bytes()
    change(path, OTHER)
    try:
        with pytest.raises(OtherVersionError, match=path.name):
            four_nights.rollbook().listener(Mirror).status()
    finally:
        path.write_bytes(before)
