"""Two institutions of a registry never fetch the same school; a renamed one takes its school over."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pipelines.errors import OtherInstitutionError
from pipelines.settings import load
from pipelines.source.claims import claim
from tests.support.warehouses.district import District, new_district


@pytest.fixture
def district() -> Iterator[District]:
    with new_district(["ash", "birch"]) as made:
        yield made


def owners(district: District) -> dict[str, str]:
    return {p.name: p.read_text() for p in (district.warehouse / "fleet" / "schools").iterdir() if p.name != ".lock"}


def test_the_first_one_has_the_school_and_the_second_is_refused(district: District) -> None:
    claim(load(institution="ash"), 41)
    claim(load(institution="ash"), 41)
    with pytest.raises(OtherInstitutionError, match="key of birch belongs to institution 41, which ash fetches"):
        claim(load(institution="birch"), 41)
    claim(load(institution="birch"), 42)
    assert owners(district) == {"41": "ash", "42": "birch"}


def test_a_renamed_institution_takes_its_school_over(district: District) -> None:
    claim(load(institution="ash"), 41)
    district.registry.write_text(district.registry.read_text().replace("[ash]", "[ash-grove]"))
    claim(load(institution="ash-grove"), 41)
    assert owners(district) == {"41": "ash-grove"}


def test_of_several_at_once_one_gets_it(district: District) -> None:
    refused: list[str] = []

    def ask(name: str) -> None:
        try:
            claim(load(institution=name), 41)
        except OtherInstitutionError:
            refused.append(name)

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("ash", "birch") * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (owner,) = owners(district).values()
    assert set(refused) == {"ash", "birch"} - {owner}


def test_a_single_school_notes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(tmp_path))
    claim(load(fetches=False), 41)
    assert not list(load(fetches=False).common_path.iterdir())
