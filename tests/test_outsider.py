"""A reader that knows only the page about the format rebuilds what is published."""

from __future__ import annotations

import hmac
import json
import re
from datetime import timedelta
from typing import Any

import pytest

from rollbook.errors import HeldError
from rollbook.landing.manifest import Body, Manifest
from rollbook.rights.erasure import erase
from rollbook.settings import ROOT
from tests import outsider
from tests.support.nights import FIRST, House, approve_held, new_house, night
from tests.support.records import MISSING, classes, entry, student, students
from tests.support.warehouses import released


def published(house: House, day: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The students and their classes of a day, as the published file has them."""
    people = house.query(f"SELECT student_id, {', '.join(outsider.STUDENT)} FROM students_as_of('{day}')")
    listed = house.query(
        f"SELECT student_id, class_id, {', '.join(outsider.IN_CLASS)} FROM student_classes_as_of('{day}')"
    )
    return {row[0]: row[1:] for row in people}, {row[:2]: row[2:] for row in listed}


def test_the_page_names_every_field_and_no_other() -> None:
    page = (ROOT / "pipelines" / "rollbook" / "landing" / "README.md").read_text("utf-8")
    index, manifest = re.findall(r"^\| field \| \|\n\|---\|---\|\n(.*?)\n\n", page, re.DOTALL | re.MULTILINE)
    for table, kind in ((index, Body), (manifest, Manifest)):
        named = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
        assert sorted(named) == sorted(kind.__struct_fields__)


def test_an_erased_student_is_recognised_as_the_page_says() -> None:
    with released.opened(released.RELEASES[0]) as house:
        register = json.loads((house.warehouse / "private" / "erasures" / "register.json").read_text("utf-8"))
    (erased,) = register["erased"]

    def keyed(text: str) -> str:
        return hmac.new(bytes.fromhex(register["key"]), text.encode(), "sha256").hexdigest()

    assert erased["id"] == keyed("id:3")
    assert {*erased["names"]} == {keyed("email:pupil.3@school.example"), keyed("reference_id:r-3")}
    assert keyed("words:pupil number3") in erased["words"]


def test_an_outsider_rebuilds_every_day_from_the_page_alone() -> None:
    with new_house(students(30), classes(3)) as house:
        house.night(1)
        moved = student(3, name="  Zoe\u0301 &amp; Co ", classes=[entry(class_id=502), entry(class_id=503)])
        house.night(2, students=[student(1, classes=None), student(2, classes=[]), moved, *students(26, first=4)])
        house.sync()  # a second landing of the day
        house.night(3, students=[student(1, name=None), *students(29, first=2), student(40, email=MISSING)])
        with pytest.raises(HeldError):
            house.night(4, students=students(12))
        house.night(5, students=students(30))
        approve_held(house.rollbook(), night(4))
        erase(house.rollbook().writer(), 7, reason="case 12", confirm=lambda _: True)
        for passed in range(6):
            day = FIRST + timedelta(days=passed)
            assert outsider.rebuild(house.warehouse, day) == published(house, day), day


@pytest.mark.parametrize("release", released.RELEASES)
def test_an_outsider_reads_the_warehouse_of_a_release(release: str) -> None:
    with released.opened(release) as house:
        for number in range(2, 8):  # the first day has expired
            day = night(number)
            assert outsider.rebuild(house.warehouse, day) == published(house, day), day
