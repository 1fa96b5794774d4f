"""Secrets of the environment: no process that Rollbook starts shows one, and no launch can read one."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.support.nights import new_house
from tests.support.processes.commands import COMMAND
from tests.support.processes.launching import AGAIN, LAUNCH, below, launch
from tests.support.processes.servers import Served, free_port, served_bare, until
from tests.support.records import classes, students
from tests.support.warehouses.district import new_district
from tests.support.wire import faults

pytestmark = [pytest.mark.timeout(600), pytest.mark.nights]

# On a busy machine other tests run, too: these are nobody else's.
MARK = token_hex(8)
KEY = f"k3y-{MARK}"
OTHERS = {"GITHUB_TOKEN": f"t0ken-{MARK}", "AWS_SECRET_ACCESS_KEY": f"s3cret-{MARK}"}
PROXY = f"http://school:passw0rd-{MARK}@127.0.0.1:9"
ADDRESS = f"json://127.0.0.1:9/chat-{MARK}"


def shown(*secrets: str) -> Iterator[str]:
    """Where the system shows one of these secrets of any process: its environment, command line, or `.env`."""
    for process in Path("/proc").glob("[0-9]*"):
        for place in ("environ", "cmdline", "cwd/.env"):
            try:
                content = (process / place).read_bytes()
            except OSError:  # it has ended, or there is no such file
                continue
            if any(secret.encode() in content for secret in secrets):
                yield f"{place} of {(process / 'cmdline').read_bytes()!r}"


def ended(served: Served, run_id: str, *secrets: str) -> str:
    """Wait for the end of a run, while no process shows a secret; its status."""

    def status() -> str | None:
        assert [*shown(*secrets)] == []
        (found,) = [run["status"] for run in served.runs() if run["runId"] == run_id]
        return str(found) if found in ("SUCCESS", "FAILURE") else None

    return until(status, 200, 0.05)


def configurations(variable: str) -> list[Any]:
    """An approval that asks for a variable in every field, as the launchpad may send it."""
    env = {"env": variable}
    fields = ({"institution": env}, {"reason": env}, {"held": [env]}, {"only": [env]})
    texts = [f"{{held: [x], {field}: {{<<: {{env: {variable}}}, <<: {{}}}}}}" for field in ("institution", "reason")]
    return [
        *({"ops": {"approve": {"config": {"held": ["x"], **each}}}} for each in fields),
        *(f"ops: {{approve: {{config: {text}}}}}" for text in texts),
    ]


def run_all(served: Served, variable: str, tags: Mapping[str, str], *secrets: str) -> None:
    """A night, and launches that ask for a variable: also again, as they are stored. No file in DAGSTER_HOME has it."""
    given = [{"key": key, "value": value} for key, value in tags.items()]
    night = launch(served, LAUNCH, job="nightly_sync", config={}, tags=given)
    assert ended(served, night, *secrets) == "SUCCESS"
    asked = [launch(served, LAUNCH, job="approve_held", config=each, tags=[]) for each in configurations(variable)]
    # A variable that is set can be asked for. Stored with the other name, that run is repeated.
    known = launch(served, LAUNCH, job="approve_held", config=configurations("DAGSTER_HOME")[0], tags=[])
    assert ended(served, known, *secrets) == "FAILURE"
    with closing(sqlite3.connect(served.log.parent / "history" / "runs.db")) as runs, runs:
        told = [f'{{"env": "{name}"}}' for name in ("DAGSTER_HOME", variable)]
        assert runs.execute("UPDATE runs SET run_body = replace(run_body, ?, ?)", told).rowcount > 1
        assert told[1] in str(runs.execute("SELECT run_body FROM runs WHERE run_id = ?", [known]).fetchall())
    asked.append(launch(served, AGAIN, of=known))
    until(lambda: all(run["status"] in ("SUCCESS", "FAILURE") for run in served.runs()), 120)
    assert [run["status"] for run in served.runs() if run["runId"] != night].count("SUCCESS") == 0
    refusals = ("which is not set", "RunConfigValidationInvalid")
    assert [a for a in asked if len(a) != len(night) and not any(words in a for words in refusals)] == []
    assert sum(refusals[0] in answer for answer in asked) > 3
    assert not [answer for answer in asked if any(secret in answer for secret in secrets)]
    for path in served.log.parent.rglob("*"):
        if path.is_file() and not path.parent.name.startswith("aside-"):
            assert not [secret for secret in secrets if secret.encode() in path.read_bytes()], path


def private_files(served: Served) -> dict[str, int]:
    """The files of secrets, with their modes."""
    folders = [*served.log.parent.glob("aside-*")]
    return {p.name: stat.S_IMODE(p.stat().st_mode) for folder in folders for p in folder.iterdir() if p.name != "lock"}


def test_no_process_of_serve_shows_a_secret_and_no_launch_reads_one(tmp_path: Path) -> None:
    root, home, today = tmp_path / "root", tmp_path / "home", f"{datetime.now(UTC):%Y-%m-%d}"
    root.mkdir()
    home.mkdir()
    (root / ".env").write_text(f"ROLLBOOK_NOTIFY={ADDRESS}\n")
    secrets = KEY, PROXY, ADDRESS, *OTHERS.values()
    with new_house(students(60), classes(2)) as house:
        house.service.now, house.service.key = lambda: datetime.now(UTC), KEY
        env = {**os.environ, **house.environment(api_key=KEY, cron="0 0 1 1 *"), **OTHERS, "https_proxy": PROXY}
        env |= {"DAGSTER_HOME": str(home), "ROLLBOOK_ROOT": str(root)}
        with served_bare(env, free_port(), folder=root) as served:
            assert private_files(served) == dict.fromkeys(
                ("ROLLBOOK_API_KEY", "AWS_SECRET_ACCESS_KEY", "https_proxy"), 384
            )
            assert "Dagster is started without GITHUB_TOKEN" in served.log.read_text()
            tags = {"dagster/partition": today, "rollbook/sync": "hand"}
            run_all(served, "ROLLBOOK_API_KEY", tags, *secrets)
            served.stop()
        assert private_files(served) == {}
        assert not [secret for secret in secrets if secret in served.log.read_text()]


@pytest.mark.weekly
def test_no_process_of_a_districts_serve_shows_a_key(tmp_path: Path) -> None:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    names = [f"{name}-{MARK}" for name in ("ash", "birch")]
    with new_district(*names) as district:
        for school in district.schools.values():
            school.now = lambda: datetime.now(UTC)
        district.write(defaults='cron = "0 0 1 1 *"')
        keys = [school.key for school in district.schools.values()]
        with served_bare({**os.environ, **district.environment()}, free_port()) as served:
            assert set(private_files(served)) == {school.variable for school in district.schools.values()}
            run_all(served, district[names[0]].variable, {"dagster/partition": today, "rollbook/sync": "hand"}, *keys)


def test_explore_and_a_districts_sync_start_again_without_secrets(tmp_path: Path) -> None:
    """The sync's worker waits for a service that does not answer, while all processes are looked at."""
    names = [f"{name}-{MARK}" for name in ("cedar", "oak")]
    with new_district(*names) as district:
        keys = [school.key for school in district.schools.values()]
        district[names[0]].on(faults.hang(300), path="auth", times=None)
        env = {**os.environ, **district.environment(), **OTHERS}
        process = subprocess.Popen([*COMMAND, "district", "sync"], env=env, stderr=subprocess.DEVNULL)
        try:
            until(lambda: district.asked()[names[0]], 120)  # so its worker has been given the key
            assert len(below(process.pid)) > 1
            assert [*shown(*keys, *OTHERS.values())] == []
        finally:
            process.kill()
            process.wait()
    with new_house(students(5), classes(1)) as house:
        house.sync()
        command = [*COMMAND, "explore", "--no-browser", "--port", str(free_port())]
        env = {**os.environ, **house.environment(api_key=KEY), **OTHERS, "DAGSTER_HOME": str(tmp_path)}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as explore:
            assert explore.stdout is not None
            assert explore.stdout.readline().startswith("Open ")
            assert [*shown(KEY, *OTHERS.values())] == []
            explore.terminate()
