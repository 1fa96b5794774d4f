"""Two institutions of a registry never fetch the same school (G11), and a mistake that is corrected blocks nobody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from rollbook.features.district.worker import NightKind
from rollbook.night.discard import discard
from rollbook.night.past import always
from tests.support.nights import night
from tests.support.warehouses.district import District, new_district
from tests.support.wire import faults

pytestmark = pytest.mark.nights

BOTH = {"ash": NightKind.SYNCED, "birch": NightKind.SYNCED}


@pytest.fixture
def swapped_key() -> Iterator[District]:
    """Ash and birch; by mistake, ash has the key of birch."""
    with new_district(["ash", "birch"]) as district:
        district.write({"ash": {"api_key": f'{{ env = "{district["birch"].variable}" }}'}})
        yield district


def synced(district: District, number: int, *only: str) -> dict[str, NightKind]:
    return {name: outcome.kind for name, outcome in district.night(number, only=only).items()}


def wrong(district: District, number: int, name: str) -> list[str]:
    """The findings of `rollbook district check` with the key of an institution."""
    ((_, findings),) = district.institutions(number, only=[name]).check()
    return [f.says for f in findings if (f.what, f.level) == ("key", "failed")]


def test_a_school_is_refused_while_another_warehouse_holds_it(swapped_key: District) -> None:
    swapped_key["birch"].on(faults.status(500), path="students", times=None)
    assert synced(swapped_key, 1, "ash") == {"ash": NightKind.FAILED}
    swapped_key["birch"].mend()
    assert wrong(swapped_key, 1, "birch") == []  # nothing was landed
    assert synced(swapped_key, 1, "ash") == {"ash": NightKind.SYNCED}
    refused = swapped_key.night(1, only=["birch"])["birch"]
    assert refused.kind == NightKind.FAILED
    (says,) = wrong(swapped_key, 1, "birch")
    assert says in refused.message
    assert "belongs to institution 101, whose records ash holds already" in says
    assert "rollbook --institution ash discard" in says

    swapped_key.write()
    assert synced(swapped_key, 2, "ash") == {"ash": NightKind.FAILED}  # the warehouse still holds birch's school
    discard(swapped_key.house("ash").rollbook().writer(), night(1), reason="birch's key", confirm=always)
    assert wrong(swapped_key, 2, "birch") == wrong(swapped_key, 2, "ash") == []
    assert synced(swapped_key, 2) == BOTH
    assert swapped_key.house("ash").query("SELECT school_id FROM institution") == [(100,)]


def test_a_new_name_begins_no_second_warehouse_of_a_school(swapped_key: District) -> None:
    """Its history and who was erased are in the folder of the old name."""
    swapped_key.write()
    assert synced(swapped_key, 1) == BOTH
    swapped_key.rename("ash", "elm")
    refused = swapped_key.night(2, only=["elm"])["elm"]
    assert refused.kind == NightKind.FAILED
    assert "whose records ash holds already" in refused.message
    assert "If elm is the new name of ash, put its folder in the place of elm/" in refused.message
    shutil.rmtree(swapped_key.warehouse / "elm")
    (swapped_key.warehouse / "ash").rename(swapped_key.warehouse / "elm")
    shutil.copytree(swapped_key.warehouse / "elm", swapped_key.warehouse / "elm-backup", symlinks=True)
    assert synced(swapped_key, 2, "elm") == {"elm": NightKind.SYNCED}


def test_two_institutions_with_one_key_are_not_both_synced(swapped_key: District) -> None:
    """Neither has landed anything when the other looks."""
    assert NightKind.FAILED in synced(swapped_key, 1).values()
    assert NightKind.FAILED in synced(swapped_key, 1).values(), "the next run of the day hides it"
