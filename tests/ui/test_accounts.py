"""The UI and the accounts of this machine: who may use it, and how an approval is recorded."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rollbook.defs.by_hand import UI
from rollbook.errors import HeldError
from rollbook.landing.manifest import Manifest
from rollbook.operations import approvals
from rollbook.util import machine
from tests.support.nights import House, new_house
from tests.support.processes.accounts import NOBODY, ask_raw, connected
from tests.support.processes.servers import Served, free_port, served_bare, serving, until
from tests.support.records import classes, students
from tests.support.wire.service import KEY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LAUNCH = """mutation($config: RunConfigData!, $tags: [ExecutionTag!]) { launchRun(executionParams: {
  selector: {repositoryLocationName: "rollbook", repositoryName: "__repository__", jobName: "approve_held"},
  runConfigData: $config, executionMetadata: {tags: $tags}}) { __typename } }"""


def request(house: House, reason: Any) -> bytes:
    """A launch that approves what is held today, and says that the superintendent asked for it."""
    (held,) = approvals.to_approve(house.rollbook())
    options = {"held": [held.hold_digest], "reason": reason}
    tags = {"rollbook/by": "superintendent"}
    variables = {
        "config": {"ops": {"approve": {"config": options}}},
        "tags": [{"key": key, "value": value} for key, value in tags.items()],
    }
    return json.dumps({"query": LAUNCH, "variables": variables}).encode()


def post(served: Served, body: bytes, *, account: int | None = None) -> bytes:
    """The answer to a query of an account."""
    head = (
        f"POST /graphql HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nX-Rollbook-Account: superintendent\r\nConnection: close\r\n\r\n"
    )
    with connected(served.port, account=account) as opened:
        return ask_raw(opened, head.encode() + body)


def landed(house: House) -> Manifest:
    return house.landings(house.now.date())[-1]


def hold(house: House) -> None:
    """A night of today whose landing is held."""
    house.now = datetime.now(UTC)
    house.service.students = students(20)
    with pytest.raises(HeldError):
        house.sync(fresh=True)


def test_an_approval_in_the_ui_is_recorded_and_keeps_no_key(tmp_path: Path) -> None:
    with new_house(students(60), classes(1)) as house:
        house.now = datetime.now(UTC) - timedelta(days=1)
        house.sync()
        hold(house)
        env = house.environment(ui_accounts=machine.name_of_account(NOBODY), cron="0 0 1 1 *")
        with serving(tmp_path / "home", env) as served:
            assert b"LaunchRunSuccess" in post(served, request(house, f"as told {KEY}"))
            until(lambda: [r["status"] for r in served.runs()] == ["FAILURE"], 120)
            assert landed(house).approvals == ()
            assert b"LaunchRunSuccess" in post(served, request(house, "as told"), account=NOBODY)
            until(lambda: served.runs()[0]["status"] == "SUCCESS", 120)
        (approval,) = landed(house).approvals
        assert (approval.by, approval.reason) == (UI, "as told")


def test_other_accounts_get_nothing_and_approve_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with new_house(students(60), classes(1)) as house:
        house.now = datetime.now(UTC) - timedelta(days=1)
        house.sync()
        hold(house)
        with serving(home, house.environment(cron="0 0 1 1 *")) as served:
            assert post(served, request(house, "forged"), account=NOBODY).startswith(b"HTTP/1.1 403 ")
        (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
        env = {**os.environ, **house.environment(cron="0 0 1 1 *"), "DAGSTER_HOME": str(home)}
        with served_bare(env, free_port()) as served:
            assert b"LaunchRunSuccess" in post(served, request(house, "as told"))
            until(lambda: [r["status"] for r in served.runs()] == ["SUCCESS"], 180)
        assert [approval.by for approval in landed(house).approvals] == [UI]
