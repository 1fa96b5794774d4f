"""How `rollbook explore` is started, whom it lets in, what it logs and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from rollbook.features.explore.server import FOREIGN, WRONG_HOST, cell, rows_of, sentence, stored, words
from rollbook.landing.records import MAX_ID
from rollbook.reading import access
from rollbook.reading.charts import short_date
from tests.support.nights import new_house, night
from tests.support.processes.accounts import NOBODY, ask_raw, connected
from tests.support.processes.commands import COMMAND, run_at
from tests.support.processes.exploring import Explored, exploring
from tests.support.processes.servers import free_port, until
from tests.support.records import entry, school_class, student, students, within
from tests.support.warehouses.erasures import erase
from tests.support.warehouses.school import LAST, School

pytestmark = [pytest.mark.timeout(300), pytest.mark.nights]

HOSTILE = '<img src=x onerror="alert(1)">'
SAFE = "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;"


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    text: str
    headers: http.client.HTTPMessage


def ask(
    explored: Explored,
    path: str = "/",
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
    content: str = "",
) -> Answer:
    """The answer to a request, from a browser that has the token unless `headers` are given."""
    connection = http.client.HTTPConnection("127.0.0.1", explored.port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    has_token = {"Cookie": f"rollbook-{explored.port}={explored.token}"}
    for name, value in {"Host": explored.host, **(has_token if headers is None else headers)}.items():
        connection.putheader(name, value)
    if content:
        connection.putheader("Content-Type", "application/x-www-form-urlencoded")
        connection.putheader("Content-Length", str(len(content)))
    connection.endheaders(content.encode() if content else None)
    answer = connection.getresponse()
    reply = Answer(answer.status, answer.read().decode(), answer.headers)
    connection.close()
    return reply


def test_before_the_first_sync_it_says_what_to_do(tmp_path: Path) -> None:
    done = run_at(tmp_path, "explore")
    missing = f"{tmp_path / 'rollbook.duckdb'} does not exist yet: run `rollbook sync` first"
    assert (done.returncode, done.stderr) == (1, f"Error: {missing}\n")


@pytest.mark.parametrize("options", [(), ("--no-browser",)])
def test_the_browser_opens_by_a_private_file_not_named_for_the_token(
    fortnight: School, tmp_path: Path, options: tuple[str, ...]
) -> None:
    told, home = tmp_path / "told", tmp_path / "home"
    stand_in = tmp_path / "browser"
    stand_in.write_text(
        f'#!/bin/sh\n(echo "$@"; cat "${{1#file://}}"; echo; ls -lR {home}) > {told}.part; mv {told}.part {told}\n'
    )
    stand_in.chmod(0o755)
    screen = {"DISPLAY": ":9", "BROWSER": str(stand_in), "TERM": "dumb", "COLUMNS": "300", "DAGSTER_HOME": str(home)}
    terminal, theirs = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, "explore", "--port", str(free_port()), *options],
        cwd=tmp_path,
        env={**os.environ, **screen, "ROLLBOOK_WAREHOUSE": str(fortnight.warehouse)},
        stdout=theirs,
        stderr=theirs,
    )
    try:
        said = b""
        while b"Ctrl-C stops it." not in said:
            said += os.read(terminal, 4096)
        address = re.search(r"http://\S+", said.decode())
        assert address is not None
        token = address[0].partition("access_token=")[2]
        if not options:
            until(told.is_file, 60)
            argument, page, *listed = told.read_text().splitlines()
            assert token not in argument
            assert page == f'<meta http-equiv="refresh" content="0; url={address[0]}">'
            modes = [line.split()[0] for line in listed if line.startswith(("-", "d"))]
            assert modes == ["drwx------", "-rw-------", "-rw-------", "-rw-------"]
    finally:
        process.terminate()
        process.wait(60)
        os.close(terminal)
        os.close(theirs)
    assert process.returncode == 0
    assert told.exists() is not bool(options)


def test_of_a_taken_port_it_says_how_to_choose_another(fortnight: School) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_at(fortnight.warehouse, "explore", "--port", str(port))
    assert (done.returncode, done.stderr) == (
        2,
        f"Error: Port {port} of 127.0.0.1 cannot be opened (Address already in use): choose another one with --port,"
        f" such as `rollbook explore --port {port + 1 if port < 65535 else port - 1}`\n",
    )


def test_only_its_own_pages_get_in_and_only_with_the_token(explored: Explored) -> None:
    own, address = f"http://{explored.host}", f"/watch?show=new&access_token={explored.token}"
    assert ask(explored, address, {"Host": "evil.example"})[:2] == (403, WRONG_HOST)
    assert ask(explored, address, {"Host": f"evil.example:{explored.port}"})[:2] == (403, WRONG_HOST)
    assert ask(explored, address, {"Host": f"other.localhost:{explored.port}"})[:2] == (403, WRONG_HOST)
    # Its cookie would go to all ports of a name that others know: under these, only a program is let in.
    for name in ("127.0.0.1", "localhost", "[::1]"):
        known = {"Host": f"{name}:{explored.port}"}
        browser = known | {"Cookie": f"rollbook-{explored.port}={explored.token}"}
        assert [ask(explored, path, browser).status for path in ("/watch", address)] == [401, 401]
        assert ask(explored, "/watch", known | {"Authorization": f"Bearer {explored.token}"}).status == 200
    assert ask(explored, "/health", {"Host": "10.0.0.7"})[:2] == (200, "ok\n")
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null"):
        assert ask(explored, address, {"Origin": origin})[:2] == (403, FOREIGN)
    # Any account of this machine can reach the port: without the token there is a form that asks for it.
    for path, cookie in (("/", ""), ("/?access_token=guessed", ""), ("/students", f"rollbook-{explored.port}=guessed")):
        refused = ask(explored, path, {"Cookie": cookie})
        assert (refused.status, "enter the token" in refused.text, "rollbook open explore" in refused.text) == (
            401,
            True,
            True,
        )
    opened = ask(explored, address, {"Origin": own})
    cookie = f"rollbook-{explored.port}={explored.token}; HttpOnly; Max-Age=2592000; Path=/; SameSite=lax"
    assert (opened.status, opened.headers["Location"], opened.headers["Set-Cookie"]) == (303, "/watch?show=new", cookie)
    shown = ask(explored, "/watch?show=new")
    assert (shown.status, shown.headers["Cache-Control"], shown.headers["X-Frame-Options"]) == (
        200,
        "no-store",
        "SAMEORIGIN",
    )
    assert explored.token not in shown.text
    assert ask(explored, "/watch", method="POST").status == 405


def test_it_has_the_same_port_of_both_addresses_that_browsers_try(explored: Explored) -> None:
    with socket.create_connection(("::1", explored.port), timeout=30) as opened:
        request = f"GET / HTTP/1.1\r\nHost: {explored.host}\r\nConnection: close\r\n\r\n"
        assert ask_raw(opened, request.encode()).startswith(b"HTTP/1.1 401 ")


def test_another_account_of_this_machine_neither_gets_in_nor_reads_the_token(explored: Explored) -> None:
    for host in ("127.0.0.1", "localhost"):
        with connected(explored.port, account=NOBODY) as opened:
            wanted = f"GET /students HTTP/1.1\r\nHost: {host}:{explored.port}\r\nConnection: close\r\n"
            answer = ask_raw(opened, f"{wanted}X-Forwarded-For: 127.0.0.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert explored.host.partition(":")[0].encode() not in answer
    (kept,) = (explored.log.parent / "home" / "addresses").glob("explore-*.json")
    assert [path.stat().st_mode & 0o077 for path in (kept, kept.parent, kept.parent.parent)] == [0, 0, 0]


def test_bookmarks_live_over_a_restart_until_the_address_is_changed(fortnight: School, tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()

    def opened(*options: str) -> subprocess.CompletedProcess[str]:
        return run_at(fortnight.warehouse, "open", "explore", *options, DAGSTER_HOME=str(home))

    with exploring(fortnight.warehouse, tmp_path / "first", home=home, port=port) as first:
        assert ask(first, "/students").status == 200
        assert first.stop() == 0
    stopped = opened()
    not_running = f"Error: `rollbook explore` does not run with the Dagster home {home}: start it,"
    assert (stopped.returncode, stopped.stderr.startswith(not_running)) == (1, True)
    with socket.create_server(("127.0.0.1", port)):  # another account's, which would be sent the token
        assert opened("--port", str(port)).returncode == 1
    with exploring(fortnight.warehouse, tmp_path / "second", home=home, port=port) as second:
        assert second.address == first.address
        assert opened().stdout == f"Open {first.address} in a browser on this machine.\n"
        assert opened("--port", "1").returncode == 1
        with exploring(fortnight.warehouse, tmp_path / "other", home=home) as other:
            assert {other.host, other.token}.isdisjoint({first.host, first.token})
            both = opened()
            assert (both.returncode, "runs on the ports" in both.stderr) == (2, True)
            # A cookie of another port opens nothing, neither as it is nor under this port's name.
            for name in (f"rollbook-{port}", f"rollbook-{other.port}"):
                assert ask(other, "/students", {"Cookie": f"{name}={first.token}"}).status == 401
            assert (
                ask(other, "/students", {"Host": first.host, "Cookie": f"rollbook-{port}={first.token}"}).status == 403
            )
        changed = opened("--new")
        address = changed.stdout.split()[1]
        assert address != first.address
        assert ask(second, "/students").status == 403
        assert (
            ask(second, "/students", {"Host": f"127.0.0.1:{port}", "Authorization": f"Bearer {first.token}"}).status
            == 401
        )
        second.address = address
        assert ask(second, "/students").status == 200
    assert opened("--new").stdout == "The next `rollbook explore` has another address.\n"


def test_an_account_that_may_write_nothing_gets_another_address_each_time(fortnight: School, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("not a folder")
    addresses = set()
    for name in ("first", "second"):
        with exploring(fortnight.warehouse, tmp_path / name, home=tmp_path / "home") as explored:
            assert ask(explored, "/students").status == 200
            addresses.add(explored.token)
    assert len(addresses) == 2


def test_headers_have_an_end_and_an_id_has_at_most_nineteen_digits(explored: Explored) -> None:
    with socket.create_connection(("127.0.0.1", explored.port), timeout=30) as opened:
        opened.sendall(f"GET / HTTP/1.1\r\nHost: {explored.host}\r\n".encode())
        with suppress(ConnectionError):
            for number in range(20_000):
                opened.sendall(f"X-{number}: {'x' * 100}\r\n".encode())
            pytest.fail("two megabytes of headers were taken")
    for path in ("/class/", "/student/"):
        assert ["leads to no page" in ask(explored, path + "9" * digits).text for digits in (4301, 19)] == [True, False]


def test_only_own_pages_or_a_person_download_or_show_values(explored: Explored) -> None:
    cookie = {"Cookie": f"rollbook-{explored.port}={explored.token}"}
    for path in ("/students?csv=1", "/why?table=students&key=1&column=name&show=on"):
        for site in ("cross-site", "same-site"):
            assert ask(explored, path, cookie | {"Sec-Fetch-Site": site})[:2] == (403, FOREIGN)
        for site in ("same-origin", "none"):
            assert ask(explored, path, cookie | {"Sec-Fetch-Site": site}).status != 403
    followed = ask(explored, "/watch?show=new", cookie | {"Sec-Fetch-Site": "cross-site"})
    assert followed.status == 200
    assert followed.headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in followed.headers["Content-Security-Policy"]


def test_each_view_and_each_download_is_a_line_of_the_log(small: School, tmp_path: Path) -> None:
    with exploring(small.warehouse, tmp_path / "run") as explored:
        ((key, name),) = small.rows("SELECT student_id, name FROM students ORDER BY 1 LIMIT 1")
        filtered = rows_of("roster", ("name", "is", name))
        for path in (
            "/",
            f"/students?text={key}",
            f"/student/{key}",
            "/watch",
            filtered,
            f"{filtered}&csv=1",
            "/tables",
        ):
            assert ask(explored, path).status == 200, path
        assert [ask(explored, path).status for path in ("/class/1", "/watch?day=never")] == [404] * 2
        mistyped = ask(explored, "/wach")
        assert mistyped.status == 404
        assert "leads to no page" in mistyped.text
        assert 'href="/watch"' in mistyped.text
        assert explored.stop() == 0
    ((watched,),) = small.rows("SELECT COUNT(*) FROM students_to_watch")
    (log,) = (small.warehouse / "private").glob("access-*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    query = 'SELECT * FROM roster WHERE "name" = TRY_CAST($? AS VARCHAR)'
    assert [(line["kind"], line["students"], line["what"].replace("$value0", "$?")) for line in lines] == [
        ("explore", 0, "school"),
        ("explore", 1, "students"),
        ("explore", 1, "student"),
        ("explore", watched, "watch"),
        ("explore", 1, query),
        ("explore download", 1, query),
        ("explore", 0, "tables"),
    ]
    assert name not in log.read_text()


def test_a_student_spoken_to_leaves_the_list_and_comes_back(small: School, tmp_path: Path) -> None:
    ((first, name), *_) = small.rows(
        "SELECT student_id, name FROM students_to_watch ORDER BY severity DESC, name, student_id"
    )
    on = date.today()  # noqa: DTZ011 - as a person writes it
    until = on + timedelta(days=14)
    with exploring(small.warehouse, tmp_path / "run") as explored:

        def links() -> list[str]:
            return re.findall(
                r'<td dir="auto" data-label="student"><a href="(/student/\d+)">', ask(explored, "/watch").text
            )

        def send(content: str, headers: Mapping[str, str] | None = None, key: int = first) -> Answer:
            return ask(explored, f"/student/{key}/contacted", headers, "POST", content)

        assert links()[0] == f"/student/{first}"
        cookie = {"Cookie": f"rollbook-{explored.port}={explored.token}"}
        assert send(f"until={until}", {}).status == 401
        for foreign in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
            assert send(f"until={until}", cookie | foreign).status == 403
        for wrong in (
            "until=tomorrow",
            "until=2020-01-01",
            "until=9999-12-31",
            "until=" + "1" * 5000,
            f"list={'1' * 5000}&until={until}",
            "",
            "until=",
        ):
            assert send(wrong).status == 404
        assert send(f"until={until}", key=1).status == 404
        assert not (small.warehouse / "contacted.csv").exists()

        done = send(f"until={until}", cookie | {"Sec-Fetch-Site": "same-origin"})
        assert (done.status, done.headers["Location"]) == (303, f"/student/{first}")
        shown = ask(explored, f"/student/{first}").text
        assert f"off the list until {short_date(until)}" in shown
        assert f"/student/{first}" not in links()
        spoken = ask(explored, "/watch?show=spoken").text
        assert f"spoken to on {short_date(on)}, back on {short_date(until)}" in spoken
        undo = f"undo={on}/{until}/"
        assert f'value="{undo[5:]}"' in spoken
        assert send(undo + "somebody").status == 303, "who says another thing removes nothing"
        assert f"/student/{first}" not in links()
        assert send(undo).status == 303
        assert links()[0] == f"/student/{first}"

        def to_speak_to(query: str = "") -> list[str]:
            shown = re.search(
                r"<strong>(\d+) to speak to</strong>(?:, and <a [^>]+>(\d+) spoken to)?",
                ask(explored, f"/watch{query}").text,
            )
            assert shown
            return [*shown.groups("0")]

        (total, _) = to_speak_to()
        ticked = send(f"list=sort%3Dstudent%26text%3D%C3%89&until={until}")
        assert (ticked.status, ticked.headers["Location"]) == (303, f"/watch?sort=student&text=%C3%89&noted={first}")
        assert f"off this list until {short_date(until)}" in ask(explored, f"/watch?noted={first}").text
        assert re.search(f'Spoken to: <a href="/student/{first}"', ask(explored, f"/watch?noted={first}").text)
        assert "Spoken to: <a" not in ask(explored, "/watch?noted=1").text
        assert to_speak_to() == [str(int(total) - 1), "1"]
        assert to_speak_to(f"?text={quote(name)}") == ["0", "1"]
        assert send(f"list=//evil.example&until={until}").headers["Location"] == f"/watch?//evil.example&noted={first}"
        assert " to speak to" not in ask(explored, "/watch?show=gone").text
        assert send(f"list=show%3Dspoken&{undo}").headers["Location"] == "/watch?show=spoken"
        assert to_speak_to() == [total, "0"]
        assert (small.warehouse / "contacted.csv").read_text() == "student_id,on,until,by\n"
    (log,) = (small.warehouse / "private").glob("access-*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["students"] for line in lines if line["what"] == "contacted"] == [1] * 6


def test_values_of_the_service_are_shown_as_text(tmp_path: Path) -> None:
    held = [{"class_id": 501, "class_title": HOSTILE, "course_name": HOSTILE}]
    people = [student(7, name=HOSTILE, classes=held, **within("summary", completion_rate=5.0))]
    named = {"course": {"course_id": 70, "course_name": HOSTILE}, "teacher": {"teacher_id": 9, "name": HOSTILE}}
    with new_house(people, [school_class(501, class_title=HOSTILE, **named)]) as house:
        house.night(1)
        with exploring(house.warehouse, tmp_path / "run") as explored:
            paths = ["/watch", "/students", "/student/7", "/classes", "/class/501", "/table/roster", "/search?text=img"]
            paths += ["/teachers", "/teacher/9", "/course/70", "/watch?teacher=9&course=70", "/classes?teacher=9"]
            for path in paths:
                shown = ask(explored, path)
                assert (shown.status, SAFE in shown.text, "<img" in shown.text) == (200, True, False), path
            refused = ask(explored, "/students?sort=%3Cimg")
            assert (refused.status, "cannot be sorted by &lt;img" in refused.text) == (404, True)


def test_the_largest_ids_have_pages(tmp_path: Path) -> None:
    """Some services number records by time, with 19 digits."""
    school = school_class(
        MAX_ID,
        course={"course_id": MAX_ID, "course_name": "Algebra"},
        teacher={"teacher_id": MAX_ID, "name": "Kim", "email": None},
    )
    with new_house([student(MAX_ID, classes=[entry(class_id=MAX_ID)])], [school]) as house:
        house.night(1)
        with exploring(house.warehouse, tmp_path / "run") as explored:
            for path in (
                "/student/{}",
                "/class/{}",
                "/teacher/{}",
                "/course/{}",
                "/classes?teacher={}",
                "/students?course={}",
            ):
                assert ask(explored, path.format(MAX_ID)).status == 200, path
                assert ask(explored, path.format("9" * 19)).status in (200, 404), path
            assert ask(explored, f"/why?table=students&key={MAX_ID}").status == 200


def test_a_record_leads_to_its_source_and_back(tmp_path: Path) -> None:
    others = [*students(10, first=2), student(12, **within("summary", completion_rate=5.0))]
    with new_house([student(1), *others], [school_class(501, class_status=0)], keep_days=1) as house:
        for number in (1, 2, 3):
            house.night(number)
        house.night(4, [student(1, name=HOSTILE), *others])
        erase(house, 7)
        first, last = night(1), night(4)
        expired = f"what was landed on {first} has expired (ROLLBOOK_KEEP_DAYS), and only the history has it"
        changed = f'<a href="?table=students&amp;key=1&amp;day={last}&amp;column=name">{last}</a></td><td>changed</td>'
        proof = "walk 1 was complete: 12 ids on 1 page, as total_count said"
        pages = {
            "/student/1": [
                '<a href="/why?table=students&amp;key=1">',
                '<a href="/why?table=student_summaries&amp;key=1">',
            ],
            "/student/12": [f"<strong>To watch</strong> since {short_date(first)} or before: low completion"],
            "/class/501": [
                '<a href="#students">68.6 %</a>',
                "only active classes are compared",
                '<a href="/why?table=classes&amp;key=501">',
                '<a href="/why?table=class_summaries&amp;key=501">',
            ],
            "/why?table=students&key=1": [f"students 1: since {last}", f"raw/snapshot_date={last}/", proof, changed],
            "/why?table=students&key=1&column=name": ["name: (not shown)", '<a href="/student/1">Back to the student'],
            "/why?table=students&key=1&column=name&show=on": [f"name: {SAFE}", "{&#34;id&#34;:1,"],
            f"/why?table=students&key=1&day={first}": [f"since {first}, until {last}", expired],
            "/why?table=student_classes&key=1,501": [f"student_classes 1,501: since {first}", expired],
            "/why?table=classes&key=501": [f"classes 501: since {first}", '<a href="/class/501">Back to the class'],
            "/why?table=students&key=7": ["Student 7 was erased: neither the values nor their source are kept."],
            "/why?table=students&key=x": ["x is not a key: write an id such as 7, or two such as 7,501."],
        }
        with exploring(house.warehouse, tmp_path / "run") as explored:
            for path, says in pages.items():
                shown = ask(explored, path)
                assert [text for text in says if text not in shown.text] == [], path
                assert shown.status == (404 if path.endswith(("=7", "=x")) else 200)
                assert (SAFE in shown.text, "<img" in shown.text) == (
                    path in ("/student/1", "/class/501") or "show" in path,
                    False,
                ), path
        logged = [(e.kind, e.students, e.what) for e in access.entries(house.warehouse)[0] if e.kind == "explore"]
        whole = ("explore", 1, "why students")
        assert logged == [
            ("explore", 1, "student"),
            ("explore", 1, "student"),
            ("explore", 11, "school_class"),
            whole,
            whole,
            ("explore", 1, "why --show students"),
            whole,
            ("explore", 1, "why student_classes"),
            ("explore", 0, "why classes"),
        ]


def test_a_value_is_put_into_words() -> None:
    values = (None, True, 0, 12345, 50.0, 66.666, "a\nb")
    assert [cell(value, LAST) for value in values] == ["\N{EN DASH}", "yes", "0", "12,345", "50.0", "66.7", r"a\nb"]
    assert [cell(day, date(2026, 11, 24)) for day in (date(2026, 11, 3), date(2025, 12, 3))] == ["3 Nov", "3 Dec 2025"]
    assert [stored(value) for value in (66.666, LAST)] == ["66.67", str(LAST)]
    reason = "never logged in, registered 2026-11-03; low completion (13.79 %, under 50)"
    assert words(reason, date(2026, 11, 24)) == "never logged in, registered 3 Nov; low completion (13.8 %, under 50)"


def test_what_changed_on_a_day_is_one_sentence() -> None:
    changes = ["back", "joined Art 1A", "joined Latin 2B", "joined Music 1C", "left Choir 1A", "score 39 to 42.2"]
    told = "back; joined Art 1A, Latin 2B and Music 1C; left Choir 1A; score 39.0 to 42.2"
    assert sentence(changes, LAST) == told
    assert sentence([], LAST) == ""
    measured = ["joined Maths 2.15", "score 39 to 42.19", "last activity 2025-10-30 to 2026-11-03"]
    assert sentence(measured, date(2026, 11, 24)) == (
        "joined Maths 2.15; score 39.0 to 42.2; last activity 30 Oct 2025 to 3 Nov"
    )


def test_sigterm_stops_it_with_success_though_a_page_is_open(fortnight: School, tmp_path: Path) -> None:
    with exploring(fortnight.warehouse, tmp_path / "run") as explored:
        connection = http.client.HTTPConnection("127.0.0.1", explored.port, timeout=60)
        connection.request(
            "GET", "/", headers={"Host": explored.host, "Cookie": f"rollbook-{explored.port}={explored.token}"}
        )
        assert connection.getresponse().status == 200
        assert explored.stop() == 0
        connection.close()
        assert explored.log.read_text().splitlines()[-1] == "Stopping."
        assert explored.asks_elsewhere() == []
        assert "socket.bind" in explored.asked.read_text()  # the record was kept


def test_explore_does_not_wait_long_for_a_busy_page(fortnight: School) -> None:
    """An interpreter that ends below a query may crash."""
    served = "lambda *_: threading.Thread(target=time.sleep, args=(100,)).start()"
    script = "import threading, time; from rollbook.cli import app; from rollbook.features.explore import server"
    script = f"{script}; server.serve = {served}; app(['explore'])"
    env = {**os.environ, "ROLLBOOK_WAREHOUSE": str(fortnight.warehouse)}
    assert subprocess.run([sys.executable, "-c", script], env=env, timeout=60, check=False).returncode == 0
