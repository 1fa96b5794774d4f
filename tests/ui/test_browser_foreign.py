"""A foreign web page, open in the operator's browser next to the UI, tries to command the UI, which goes on working.

Everything is real: `rollbook serve`, Chromium, which has the cookie, and a page from another port and other names of this
machine, of which one means this machine only after the page was loaded (DNS rebinding).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocket, expect

from tests.support.processes.commands import UNREACHABLE, dagster_home, run_in_dagster
from tests.support.processes.servers import Served, serving, until
from tests.support.wire.listeners import listening

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]

DELETE = 'mutation {{ deleteRun(runId: "{run}") {{ __typename }} }}'
LAUNCH = """mutation { launchRun(executionParams: {
  selector: {repositoryLocationName: "rollbook", repositoryName: "__repository__", jobName: "approve_held"},
  runConfigData: {ops: {approve: {config: {held: ["0123456789ab"]}}}}
}) { __typename } }"""

OWN = "the UI's own"

# Each way in which a page can have the browser send something to another site by itself. The answer does not matter: the
# page may not read that, and need not.
ATTACKS = """async ([ui, mutations]) => {
  const quietly = async (promise) => { try { await promise } catch { } }
  const socket = (mutation) => new Promise((done) => {
    const opened = new WebSocket(ui.replace("http", "ws") + "/graphql", "graphql-ws")
    opened.onopen = () => {
      opened.send(JSON.stringify({type: "connection_init"}))
      opened.send(JSON.stringify({type: "start", id: "1", payload: {query: mutation}}))
      setTimeout(() => { opened.close(); done("opened") }, 1000)
    }
    opened.onerror = () => done("refused")
  })
  const form = (mutation, enctype) => new Promise((done) => {
    const frame = Object.assign(document.createElement("iframe"), {name: "f" + Math.random()})
    const made = Object.assign(document.createElement("form"), {
      method: "POST", enctype, target: frame.name, action: ui + "/graphql?query=" + encodeURIComponent(mutation),
    })
    const field = Object.assign(document.createElement("input"), {name: '{"query": "', value: mutation + '"}'})
    made.append(field)
    document.body.append(frame, made)
    frame.onload = () => done()
    setTimeout(done, 3000)
    made.submit()
  })
  const image = (url) => new Promise((done) => {
    const made = new Image()
    made.onload = made.onerror = done
    made.src = url
  })
  const sockets = []
  for (const mutation of mutations) {
    const inUrl = ui + "/graphql?query=" + encodeURIComponent(mutation)
    const body = JSON.stringify({query: mutation})
    await image(inUrl)
    await quietly(fetch(inUrl, {mode: "no-cors", credentials: "include"}))
    await quietly(fetch(inUrl, {mode: "no-cors", method: "POST"}))
    for (const type of ["text/plain", "text/plain; application/json", "application/x-www-form-urlencoded"])
      await quietly(fetch(ui + "/graphql", {mode: "no-cors", method: "POST", headers: {"Content-Type": type}, body}))
    await quietly(fetch(ui + "/graphql", {method: "POST", headers: {"Content-Type": "application/json"}, body}))
    navigator.sendBeacon(inUrl, "")
    for (const enctype of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
      await form(mutation, enctype)
    sockets.push(await socket(mutation))
  }
  await quietly(fetch(ui + "/report_asset_materialization/forged", {mode: "no-cors", method: "POST", body: "{}"}))
  return sockets
}"""


@dataclass
class Ui:
    """The running UI, and the only run there."""

    served: Served
    run: str

    def runs(self) -> list[str]:
        return [run["runId"] for run in self.served.runs()]

    def assets(self) -> list[str]:
        assets = self.served.ask("query { assetsOrError { ... on AssetConnection { nodes { key { path } } } } }")
        return ["/".join(n["key"]["path"]) for n in assets["assetsOrError"]["nodes"]]


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """A UI with one failed run; the service does not exist, so that no run of a test gets far."""
    folder = tmp_path_factory.mktemp("foreign")
    home = dagster_home(folder / "home")
    settings = UNREACHABLE | {"ROLLBOOK_WAREHOUSE": str(folder / "warehouse"), "ROLLBOOK_CRON": "0 0 1 1 *"}
    settings |= {"ROLLBOOK_UI_HOSTS": "ui.example"}
    done = run_in_dagster(home, settings)
    assert done.returncode == 1, done.stderr
    with serving(home, settings) as served:
        (run,) = served.runs()
        yield Ui(served, run["runId"])


@dataclass
class Foreign:
    """Another web server on this machine: its port, and the cookies that it was sent."""

    port: int
    cookies: list[str]


@pytest.fixture
def foreign() -> Iterator[Foreign]:
    """Another account's; the page is empty."""
    cookies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.extend(self.headers.get_all("Cookie", []))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>foreign</title><body>")

        def log_message(self, *args: Any) -> None:
            pass

    with listening(Handler) as port:
        yield Foreign(port, cookies)


@pytest.fixture(scope="module")
def chromium_flags(chromium_flags: list[str]) -> list[str]:
    """All names under .example mean this machine."""
    return [*chromium_flags, "--host-resolver-rules=MAP *.example 127.0.0.1"]


def after_events(page: Page, look: Callable[[], bool]) -> Callable[[], bool]:
    """Look once the browser's events have come through."""

    def looked() -> bool:
        page.wait_for_timeout(100)
        return look()

    return looked


def listen(heard: list[str], socket: WebSocket) -> None:
    socket.on("framereceived", lambda frame: heard.append(str(frame)))


def is_connected(heard: list[str]) -> bool:
    return any("connection_ack" in frame for frame in heard)


def is_partition_chosen(page: Page, partition: str) -> bool:
    """Choose a partition in the launchpad, which draws itself several times: an open list is closed then, or a choice
    is lost.
    """
    field, offered = page.get_by_placeholder("Partition").first, page.get_by_text(partition).first
    if field.input_value() != partition:
        field.click()
        page.wait_for_timeout(1000)
        if offered.is_visible():
            offered.click()
    page.wait_for_timeout(2000)
    return field.input_value() == partition


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "evil.example", "other.localhost", OWN])
def test_a_page_of_another_site_starts_and_deletes_nothing(page: Page, ui: Ui, foreign: Foreign, name: str) -> None:
    """Even if it knew the UI's own name: then the browser would send the cookie along."""
    before, own = (ui.runs(), ui.assets()), ui.served.kept.read().name
    page.goto(ui.served.address)
    page.goto(f"http://{own if name == OWN else name}:{foreign.port}/")
    assert bool(foreign.cookies) is (name == OWN)
    sockets = page.evaluate(ATTACKS, [ui.served.url, [LAUNCH, DELETE.format(run=ui.run)]])
    assert (ui.runs(), ui.assets()) == before
    assert sockets == ["refused", "refused"]


def test_a_name_rebound_to_this_machine_gets_no_page(page: Page, ui: Ui) -> None:
    """DNS rebinding: to the browser, the foreign page and the UI are then one site."""
    page.goto(ui.served.address)
    rebound = f"http://evil.example:{ui.served.port}"
    answer = page.goto(f"{rebound}/")
    assert answer is not None
    assert answer.status == 403
    assert "ROLLBOOK_UI_HOSTS" in answer.text()
    assert page.evaluate(ATTACKS, [rebound, [LAUNCH, DELETE.format(run=ui.run)]]) == ["refused", "refused"]
    assert ui.runs() == [ui.run]


def test_the_ui_itself_works_lists_launches_and_hears_of_it_at_once(page: Page, ui: Ui) -> None:
    """The page, the queries and the WebSocket, by its own name and by one that is set."""
    for url in (ui.served.url, f"http://ui.example:{ui.served.port}"):
        page.goto(f"{url}/runs?view=all")
        expect(page).to_have_title("Token needed")
        page.get_by_label("Token").fill(ui.served.kept.read().token)
        page.get_by_role("button", name="Open").click()
        expect(page).to_have_title(re.compile("Runs"))
        assert page.url == f"{url}/runs?view=all"
        heard: list[str] = []
        opened = partial(listen, heard)
        page.on("websocket", opened)
        page.goto(f"{url}/asset-groups/")
        for stage in ("land", "tables", "publish"):
            expect(page.get_by_text(stage, exact=True).first).to_be_visible()
        page.goto(f"{url}/runs/{ui.run}")
        expect(page.get_by_text("gave no usable answer").first).to_be_visible()
        until(after_events(page, partial(is_connected, heard)), 60)
        page.remove_listener("websocket", opened)
    page.goto(f"{ui.served.url}/locations/rollbook/jobs/nightly_sync/playground")
    launched = page.evaluate(
        """async (query) => (await (await fetch("/graphql", {
             method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({query}),
           })).json()).data.launchRun.__typename""",
        LAUNCH,
    )
    assert launched == "LaunchRunSuccess"
    assert len(ui.runs()) == 2
    # And what the launchpad offers by itself is accepted.
    until(partial(is_partition_chosen, page, f"{datetime.now(UTC):%Y-%m-%d}"), 60)
    page.get_by_role("button", name="Launch Run").click()
    page.wait_for_url("**/runs/*")
    assert len(ui.runs()) == 3
