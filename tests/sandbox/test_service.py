"""The endpoints over HTTP: pages, filters, the key, the day, and the error body for what the contract leaves open."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from rollbook.errors import ArgumentError
from rollbook.sandbox import MadeUpInstitution, Sandbox, Service, school_of
from tests.support.processes.commands import COMMAND

DAY = date(2026, 11, 20)
KEY = "a key of this test's own"
Record = dict[str, Any]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(students=330, seed=3, day=DAY, api_key=KEY) as running:
        yield running


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{sandbox.url}/svcapi/v1", headers={"X-API-Key": KEY}) as client:
        yield client


def walk(client: httpx.Client, path: str, query: Record, limit: int) -> list[Record]:
    """Every record of a list, page by page, and every page's pagination checked."""
    records: list[Record] = []
    for page in range(1, 1000):
        body = client.get(path, params={**query, "page": page, "limit": limit}).raise_for_status().json()
        total = body["pagination"]["total_count"]
        pages = -(-total // limit)
        links = {"has_next": page < pages, "has_prev": page > 1 and pages > 0}
        counts = {"page": page, "limit": limit, "total_count": total, "total_pages": pages}
        assert body == {"success": True, "data": body["data"], "pagination": counts | links}
        assert len(body["data"]) == max(0, min(limit, total - len(records)))
        records += body["data"]
        if not body["pagination"]["has_next"]:
            break
    return records


def test_auth_says_whose_the_key_is_and_which_day_is_played(client: httpx.Client, sandbox: Sandbox) -> None:
    data = client.get("/auth").raise_for_status().json()["data"]
    timestamp = datetime.strptime(data.pop("timestamp"), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert data == {"authenticated": True, "school": school_of(3), "api_key_name": "nightly"}
    assert timestamp.date() == DAY
    sandbox.day = DAY + timedelta(days=1)
    assert client.get("/auth").json()["data"]["timestamp"][:10] == str(sandbox.day)
    assert client.get("/students").json()["data"] == MadeUpInstitution(330, 3).on(sandbox.day).students[:50]
    sandbox.day = DAY


@pytest.mark.parametrize("limit", [7, 50, 100])
def test_a_walk_over_either_list_gives_every_record_once_and_in_order(client: httpx.Client, limit: int) -> None:
    played = MadeUpInstitution(330, seed=3).on(DAY)
    assert walk(client, "/students", {}, limit) == played.students
    assert walk(client, "/classes", {}, limit) == played.classes
    assert client.get("/students", params={"page": 10**17}).json()["data"] == []
    assert client.get("/students").json()["pagination"]["limit"] == 50


def test_filters_are_combined_and_a_search_finds_text_anywhere(client: httpx.Client, sandbox: Sandbox) -> None:
    of_course = {own["class_id"]: own["course"]["course_id"] for own in sandbox.classes}
    one = next(own for own in sandbox.students if own.get("classes"))
    entry = one["classes"][0]["class_id"]
    for class_id, course_id, search in product(
        (None, entry, -1), (None, of_course[entry]), (None, "", one["name"].swapcase()[1:], one["email"], "é", "%")
    ):
        expected = [
            own
            for own in sandbox.students
            if (class_id is None or class_id in [e["class_id"] for e in own.get("classes", [])])
            and (course_id is None or course_id in [of_course[e["class_id"]] for e in own.get("classes", [])])
            and any((search or "").casefold() in own[n].casefold() for n in ("name", "email", "reference_id"))
        ]
        query = {"class_id": class_id, "course_id": course_id, "search": search}
        given = {name: value for name, value in query.items() if value is not None}
        assert walk(client, "/students", given, 100) == expected, given
    some = sandbox.classes[4]
    teacher = some["teacher"]
    for status, email, search in product((None, 0, 1), (None, teacher["email"].upper(), ""), (None, "an")):
        expected = [
            own
            for own in sandbox.classes
            if status in (None, own["class_status"])
            and (email is None or own["teacher"]["email"] == email.casefold())
            and any((search or "") in own[name].casefold() for name in ("class_title", "class_code"))
        ]
        query = {"status": status, "teacher_email": email, "search": search}
        assert walk(client, "/classes", {n: v for n, v in query.items() if v is not None}, 100) == expected
    assert walk(client, "/classes", {"teacher_id": teacher["teacher_id"], "colour": "red"}, 100)


def test_one_student_has_whole_classes(client: httpx.Client, sandbox: Sandbox) -> None:
    student = next(own for own in sandbox.students if own.get("classes"))
    data = client.get(f"/student/{student['id']}").raise_for_status().json()["data"]
    assert {e["class_id"] for e in data.pop("classes")} == {e["class_id"] for e in student["classes"]}
    assert data.items() >= {name: value for name, value in student.items() if name != "classes"}.items()


def refused(response: httpx.Response, status: int, code: str) -> str:
    """Check the contract's error body; returns its message."""
    body: Record = response.json()
    assert body == {"error": True, "message": body["message"], "status_code": status, "error_code": code}
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    return str(body["message"])


def test_requests_that_violate_the_contract_get_its_error_body(client: httpx.Client, sandbox: Sandbox) -> None:
    for path in ("/auth", "/students", "/student/1", "/no/such/path"):
        for key in ("", "wrong", KEY.upper()):
            refused(httpx.get(f"{sandbox.url}/svcapi/v1{path}", headers={"X-API-Key": key}), 401, "AUTH_REQUIRED")
    for name, value in [
        *(("page", value) for value in ("0", "-1", "", "one", "1.0", " 1", "٣", "9" * 19)),
        *(("limit", value) for value in ("0", "101", "")),
        *(("class_id", value) for value in ("", "1,2")),
    ]:
        assert name in refused(client.get("/students", params={name: value}), 400, "INVALID_PARAMETER")
    refused(client.get("/classes", params={"status": 2}), 400, "INVALID_PARAMETER")
    refused(client.get("/student/abc"), 400, "INVALID_PARAMETER")
    refused(client.get("/student/-3"), 404, "STUDENT_NOT_FOUND")
    for path in ("/students/", "/student", "/class/5001", "/Students"):
        refused(client.get(path), 404, "NOT_FOUND")
    refused(client.post("/students"), 405, "METHOD_NOT_ALLOWED")


def test_a_sandbox_that_cannot_be_made_says_so() -> None:
    with pytest.raises(ArgumentError, match="needs a key"):
        Service(key="")
    with pytest.raises(ArgumentError, match="opened on"):
        Sandbox(5, day=date(1999, 1, 1))
    with Sandbox(5) as taken, pytest.raises(ArgumentError, match=f"Port {taken.port} "), Sandbox(5, port=taken.port):
        pass


def command(warehouse: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command, where this is the real school's warehouse."""
    typed = [*COMMAND, "sandbox", "--port", "0", "--students", "50", "--key", KEY, *arguments]
    own = {**os.environ, "ROLLBOOK_WAREHOUSE": str(warehouse)}
    return subprocess.Popen(typed, stdout=subprocess.PIPE, text=True, env=own)


@pytest.mark.slow
def test_the_printed_settings_sync_into_a_separate_warehouse(tmp_path: Path) -> None:
    with command(tmp_path, "--day", "2026-09-14", "--seed", "3", "--key", "k", "--odd") as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(4)]
        done = subprocess.run(
            ["sh", "-c", "".join(printed[2:])], capture_output=True, text=True, timeout=100, check=False
        )
        process.terminate()
    assert "Synced 2026-09-14: " in done.stdout, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["sandbox-3"]
    assert {"rollbook.duckdb", "dagster_home"} < {path.name for path in (tmp_path / "sandbox-3").iterdir()}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_plays_today_and_stops_when_told(number: signal.Signals, tmp_path: Path) -> None:
    with command(tmp_path) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split(" at ")[1].split(". ")[0]
        stated = httpx.get(f"{url}/svcapi/v1/auth", headers={"X-API-Key": KEY}).json()["data"]["timestamp"][:10]
        assert abs(date.fromisoformat(stated) - datetime.now(UTC).date()) <= timedelta(days=1)
        os.kill(process.pid, number)
        assert process.wait(60) == 0
