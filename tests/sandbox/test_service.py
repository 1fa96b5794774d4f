"""The endpoints over HTTP: pages, filters, the key, and the error body for everything the contract leaves open."""

import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

import httpx
import pytest

from pipelines.errors import ArgumentError
from pipelines.sandbox import Day, Institution, Sandbox, School, make_app
from pipelines.sandbox.service import school_of

DAY = date(2026, 11, 20)
KEY = "a key of this test's own"
Record = dict[str, Any]
Query = dict[str, str | int]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(students=330, seed=3, day=DAY, api_key=KEY) as running:
        yield running


@pytest.fixture(scope="module")
def client(sandbox: Sandbox) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{sandbox.base_url}/svcapi/v1", headers={"X-API-Key": KEY}) as kept:
        yield kept


@pytest.fixture(scope="module")
def played() -> Day:
    """The day that is served, made anew: what a page must hold comes from here."""
    return Institution(330, seed=3).on(DAY)


def pagination(page: int, limit: int, total: int) -> Record:
    """What the contract says around a page."""
    pages = -(-total // limit)
    links = {"has_next": page < pages, "has_prev": page > 1 and pages > 0}
    return {"page": page, "limit": limit, "total_count": total, "total_pages": pages, **links}


def walk(client: httpx.Client, path: str, query: Query, limit: int) -> list[Record]:
    """Every record of a list, page by page, and every page's pagination checked."""
    records: list[Record] = []
    page = 1
    while True:
        body = client.get(path, params={**query, "page": page, "limit": limit}).raise_for_status().json()
        assert body.keys() == {"success", "data", "pagination"}
        assert body["success"] is True
        total = body["pagination"]["total_count"]
        assert body["pagination"] == pagination(page, limit, total)
        assert len(body["data"]) == min(limit, total - len(records))
        records += body["data"]
        if not body["pagination"]["has_next"]:
            assert len(records) == total
            return records
        page += 1


def test_each_seed_makes_an_institution_of_its_own() -> None:
    made = [school_of(seed) for seed in range(-2, 40)]
    assert len({school.id for school in made}) == len({school.key for school in made}) == len(made)
    assert school_of(1) == School()


def test_auth_says_whose_the_key_is_and_which_day_is_played(client: httpx.Client) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    body = client.get("/auth").raise_for_status().json()
    timestamp = body["data"].pop("timestamp")
    assert body == {
        "success": True,
        "data": {
            "authenticated": True,
            "school": {"id": 4071, "name": "Linden Vale School", "key": "linden-vale"},
            "api_key_name": "Rollbook sandbox",
        },
        "message": "The API key is valid and active.",
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", timestamp)
    assert timestamp[:10] == DAY.isoformat()
    of_day = datetime.strptime(timestamp[11:], "%H:%M:%S").replace(tzinfo=UTC).time()
    since = datetime.combine(before, of_day, UTC) - before
    assert since % timedelta(days=1) < timedelta(seconds=30)


def test_another_school_can_be_played() -> None:
    school = School(id=12, name="Elsewhere", key="elsewhere", api_key_name="nightly")
    with Sandbox(students=5, day=DAY, school=school) as running:
        data = httpx.get(f"{running.base_url}/svcapi/v1/auth", headers={"X-API-Key": running.api_key}).json()["data"]
    assert data["school"] == {"id": 12, "name": "Elsewhere", "key": "elsewhere"}
    assert data["api_key_name"] == "nightly"


@pytest.mark.parametrize("limit", [1, 7, 50, 99, 100])
def test_a_walk_over_either_list_gives_every_record_once_and_in_order(
    client: httpx.Client, played: Day, limit: int
) -> None:
    assert walk(client, "/students", {}, limit) == played.students
    assert walk(client, "/classes", {}, limit) == played.classes


def test_page_is_1_and_limit_50_when_not_given(client: httpx.Client, played: Day) -> None:
    for path, records in (("/students", played.students), ("/classes", played.classes)):
        body = client.get(path).json()
        assert body["data"] == records[:50]
        assert (body["pagination"]["page"], body["pagination"]["limit"]) == (1, 50)
    assert client.get("/students", params={"page": 3}).json()["data"] == played.students[100:150]


def test_a_page_past_the_end_is_empty(client: httpx.Client, played: Day) -> None:
    for page in (5, 1000, 10**17):
        body = client.get("/students", params={"page": page, "limit": 100}).json()
        assert (body["data"], body["pagination"]) == ([], pagination(page, 100, len(played.students)))
    nobody = client.get("/students", params={"search": "nobody is called this", "page": 2}).json()
    assert (nobody["data"], nobody["pagination"]) == ([], pagination(2, 50, 0))


def contains(text: str, *fields: str) -> bool:
    return any(text.casefold() in field.casefold() for field in fields)


def students_matching(day: Day, query: Query) -> list[Record]:
    """The slow, obvious way."""
    classes = {own["class_id"]: own for own in day.classes}
    taken: dict[int, list[Record]] = {student["id"]: [] for student in day.students}
    for class_id, roster in day.rosters.items():
        for student_id in roster:
            taken[student_id].append(classes[class_id])
    tests: dict[str, Callable[[Record, Any], bool]] = {
        "class_id": lambda own, value: any(each["class_id"] == value for each in taken[own["id"]]),
        "course_id": lambda own, value: any(each["course"]["course_id"] == value for each in taken[own["id"]]),
        "search": lambda own, value: contains(value, own["name"], own["email"], own["reference_id"]),
    }
    return [own for own in day.students if all(tests[name](own, value) for name, value in query.items())]


def classes_matching(day: Day, query: Query) -> list[Record]:
    tests: dict[str, Callable[[Record, Any], bool]] = {
        "status": lambda own, value: own["class_status"] == value,
        "course_id": lambda own, value: own["course"]["course_id"] == value,
        "teacher_id": lambda own, value: own["teacher"]["teacher_id"] == value,
        "teacher_email": lambda own, value: own["teacher"]["email"].casefold() == value.casefold(),
        "search": lambda own, value: contains(value, own["class_title"], own["class_code"]),
    }
    return [own for own in day.classes if all(tests[name](own, value) for name, value in query.items())]


def check_combinations(
    client: httpx.Client, path: str, choices: dict[str, list[Any]], expected: Callable[[Query], list[Record]]
) -> None:
    """Every combination of the choices, None leaving a filter out; both full and empty answers must occur."""
    sizes = set()
    for values in product(*choices.values()):
        query = {name: value for name, value in zip(choices, values, strict=True) if value is not None}
        wanted = expected(query)
        assert walk(client, path, query, limit=100) == wanted, query
        sizes.add(min(len(wanted), 2))
    assert sizes == {0, 1, 2}


def test_students_are_filtered_by_class_course_and_search_in_any_combination(client: httpx.Client, played: Day) -> None:
    silent = next(own["id"] for own in played.students if "classes" not in own)
    class_of_silent = next(own for own, roster in played.rosters.items() if silent in roster)
    closed = next(own["class_id"] for own in played.classes if own["class_status"] == 0)
    one = random.Random(4).choice([own for own in played.students if own.get("classes")])
    courses = {own["class_id"]: own["course"]["course_id"] for own in played.classes}
    choices: dict[str, list[Any]] = {
        "class_id": [None, class_of_silent, one["classes"][0]["class_id"], closed, 999_999_999, -1],
        "course_id": [None, courses[one["classes"][0]["class_id"]], courses[one["classes"][1]["class_id"]], 0],
        "search": [
            *(None, one["name"].swapcase()[1:-1], one["email"].upper(), one["reference_id"].lower()),
            *("é", "O'B", "SIS-", "@students.", "zzzz", "%", "_", ".*", "野"),
        ],
    }
    check_combinations(client, "/students", choices, lambda query: students_matching(played, query))
    assert silent in {own["id"] for own in walk(client, "/students", {"class_id": class_of_silent}, 100)}


def test_classes_are_filtered_by_status_course_teacher_email_and_search_in_any_combination(
    client: httpx.Client, played: Day
) -> None:
    one, other = random.Random(6).sample(played.classes, 2)
    choices: dict[str, list[Any]] = {
        "status": [None, 0, 1],
        "course_id": [None, one["course"]["course_id"], 0],
        "teacher_id": [None, one["teacher"]["teacher_id"], other["teacher"]["teacher_id"]],
        "teacher_email": [None, one["teacher"]["email"].upper(), one["teacher"]["email"][:-1]],
        "search": [None, one["class_title"].upper(), one["class_code"].lower(), "an"],
    }
    check_combinations(client, "/classes", choices, lambda query: classes_matching(played, query))


def test_every_student_is_found_by_email_and_by_reference(client: httpx.Client, played: Day) -> None:
    for student in played.students[::10]:
        for name in ("email", "reference_id"):
            assert walk(client, "/students", {"search": student[name]}, 100) == [student]


def test_a_search_never_matches_across_two_fields(client: httpx.Client, played: Day) -> None:
    student = played.students[0]
    for between in ("", "\n", " ", "\x00", "\x1f"):
        query: Query = {"search": f"{student['name']}{between}{student['email']}"}
        assert walk(client, "/students", query, 100) == []


def test_unknown_parameters_are_ignored_and_an_empty_search_does_not_filter(client: httpx.Client, played: Day) -> None:
    assert walk(client, "/students", {"search": "", "colour": "red"}, 100) == played.students
    assert client.get("/students?limit=3&limit=2").json()["data"] == played.students[:2]


def test_one_student_in_full_is_what_the_institution_says(client: httpx.Client, played: Day) -> None:
    for student_id in played.student_ids[::40]:
        body = client.get(f"/student/{student_id}").raise_for_status().json()
        assert body == {"success": True, "data": played.detail(student_id)}


def check_error(response: httpx.Response, status: int, code: str) -> str:
    """The contract's error body and nothing else; returns its message."""
    body = response.json()
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert body == {"error": True, "message": body["message"], "status_code": status, "error_code": code}
    assert body["message"]
    assert isinstance(body["message"], str)
    return str(body["message"])


@pytest.mark.parametrize("path", ["/auth", "/students", "/classes", "/student/1", "/no/such/path"])
def test_without_the_right_key_everything_is_401(sandbox: Sandbox, path: str) -> None:
    url = f"{sandbox.base_url}/svcapi/v1{path}"
    wrong: list[dict[str, str] | list[tuple[str, str]]] = [
        {},
        {"X-API-Key": ""},
        {"X-API-Key": "wrong"},
        {"X-API-Key": KEY.upper()},
        {"Authorization": f"Bearer {KEY}"},
        [("X-API-Key", KEY), ("X-API-Key", "wrong")],
    ]
    for headers in wrong:
        message = check_error(httpx.get(url, headers=headers), 401, "AUTH_REQUIRED")
        assert KEY not in message


MALFORMED = [
    *(("page", value) for value in ("0", "-1", "", "one", "1.0", "1e3", " 1", "+1", "٣", "9" * 19)),
    *(("limit", value) for value in ("0", "-5", "101", "100000", "", "all", "0x10")),
    *(("course_id", value) for value in ("", "abc", "1,2", "12 ")),
]


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        *((path, *each) for path in ("/students", "/classes") for each in MALFORMED),
        *(("/classes", "status", value) for value in ("2", "active", "-1")),
        ("/classes", "teacher_id", "x"),
        ("/students", "class_id", "5012a"),
    ],
)
def test_a_malformed_or_out_of_range_value_is_400_and_named(
    client: httpx.Client, path: str, name: str, value: str
) -> None:
    message = check_error(client.get(path, params={name: value}), 400, "INVALID_PARAMETER")
    assert message.startswith(f"{name} must be ")


def test_unknown_students_and_paths_are_404(client: httpx.Client, played: Day) -> None:
    for student_id in (0, -3, max(played.student_ids) + 1):
        check_error(client.get(f"/student/{student_id}"), 404, "STUDENT_NOT_FOUND")
    check_error(client.get("/student/abc"), 400, "INVALID_PARAMETER")
    for path in ("/students/", "/student/", "/student", "/class/5001", "/", "/student/1/classes", "/Students"):
        check_error(client.get(path), 404, "NOT_FOUND")
    check_error(client.get("../v2/students"), 404, "NOT_FOUND")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_any_other_method_is_405(client: httpx.Client, method: str) -> None:
    for path in ("/auth", "/students", "/classes", "/student/1"):
        response = client.request(method, path)
        check_error(response, 405, "METHOD_NOT_ALLOWED")
        assert "GET" in response.headers["allow"]


def test_head_is_answered_as_http_has_it(client: httpx.Client) -> None:
    head, get = client.head("/students"), client.get("/students")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


def test_an_empty_key_or_a_day_before_the_opening_makes_no_service() -> None:
    with pytest.raises(ArgumentError, match="needs a key"):
        make_app(Institution(5), day=DAY, api_key="")
    with pytest.raises(ArgumentError, match="opened on"):
        make_app(Institution(5), day=date(1999, 1, 1), api_key=KEY)
