"""The pages that `rollbook serve` offers in addition to the UI: a school's, many institutions', and a list."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from rollbook.features.district.served import district_page
from rollbook.features.morning.served import report_page
from tests.support.nights import folder, new_house
from tests.support.records import classes, students

REGISTRY = '[ash]\nbase_url = "https://ash.example"\n\n[birch]\nbase_url = "https://birch.example"\n'

PAGES = {"/report.html": report_page, "/report/{name}.html": report_page, "/district-report.html": district_page}
APP = Starlette(routes=[Route(path, answer) for path, answer in PAGES.items()])


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with folder() as root:
        monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(root))
        yield root


def get(path: str) -> httpx.Response:
    """One page, as the server answers."""

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(APP), base_url="http://127.0.0.1") as client:
            return await client.get(path)

    return asyncio.run(ask())


def links(path: str) -> list[tuple[str, str]]:
    answer = get(path)
    assert answer.status_code == 200, answer.text
    return re.findall(r'<a href="([^"]*)">([^<]*)</a>', answer.text)


def write(page: Path) -> None:
    page.parent.mkdir(exist_ok=True)
    page.write_text("<html><body>\nA page.</body></html>")


def test_a_single_schools_page_is_as_it_was_written(root: Path) -> None:
    assert get("/report.html").text == "There is no morning page yet: run `rollbook sync`, which writes it.\n"
    write(root / "report.html")
    assert get("/report.html").text == (root / "report.html").read_text()
    assert get("/district-report.html").status_code == 404


def test_a_page_with_names_is_served_without_them() -> None:
    """Any account of this machine can ask the UI; the file is the owner's alone."""
    with new_house(students(30), classes(2), report_names=True) as house:
        for student in house.service.students:
            student["summary"]["completion_rate"] = 1
        house.night(1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ROLLBOOK_WAREHOUSE", str(house.warehouse))
            served = get("/report.html").text
        assert "Pupil Number7" in (house.warehouse / "report.html").read_text()
    assert "Pupil" not in served
    assert "Names are only in the file report.html" in served
    assert served.endswith("</html>")


def test_a_list_leads_to_the_pages_of_many(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "institutions.toml").write_text(REGISTRY)
    monkeypatch.setenv("ROLLBOOK_INSTITUTIONS", str(root / "institutions.toml"))
    write(root / "ash" / "report.html")
    ash = ("report/ash.html", "ash")
    assert links("/report.html") == [ash]
    assert "rollbook district report" in get("/report.html").text
    assert get("/district-report.html").text == (
        "There is no page about all institutions yet: run `rollbook district report`, which writes it.\n"
    )
    write(root / "district-report.html")
    assert links("/report.html") == [("district-report.html", "All institutions"), ash]
    assert [get(path).status_code for path in ("/district-report.html", "/report/ash.html")] == [200, 200]
    assert get("/report/birch.html").text.startswith(
        "There is no morning page yet: run `rollbook --institution birch sync`"
    )
    assert get("/report/nobody.html").text == "The registry has no such institution.\n"
