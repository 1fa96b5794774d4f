"""Launches may not hold this: the name of a variable, in any of the forms in which Dagster reads a configuration."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from starlette.types import Message, Receive, Scope, Send

from rollbook.defs.launches import MAX_BYTES, NO_VARIABLES, Launches, RunCoordinator, refused
from rollbook.defs.partitions import BY_TAG

LAUNCH = "mutation($p: ExecutionParams!) { launchRun(executionParams: $p) { __typename } }"
ENV = {"env": "ROLLBOOK_API_KEY"}


def config(**options: Any) -> dict[str, Any]:
    return {"ops": {"sync": {"config": options}}}


def launch(run_config: Any) -> bytes:
    return json.dumps({"query": LAUNCH, "variables": {"p": {"runConfigData": run_config}}}).encode()


ODD = """ops: {approve: {config: {held: [2026-99-99], only: [{"\\x65nv": ROLLBOOK_API_KEY}]}}}"""
LOOP = "&a {ops: *a, loggers: &b [*b, {env: X}]}"


@pytest.mark.parametrize(
    "body",
    [
        launch(config(only=[ENV])),
        launch(config(reason=ENV)),
        launch(config(details=[[ENV]])),
        launch(json.dumps(config(only=[ENV]))),
        launch(json.dumps(config(only=[ENV]), indent="\t")),
        launch("ops:\n  sync:\n    config:\n      reason:\n        env: ROLLBOOK_API_KEY\n"),
        launch("ops: {sync: {config: {reason: {? env : ROLLBOOK_API_KEY}}}}"),
        launch("base: &x {env: A}\nops: {sync: {config: {reason: {<<: *x}}}}"),
        launch(ODD),
        launch(LOOP),
        launch("{env: [a: b: c"),  # cannot be read here, and might be there
        launch({"resources": {"io_manager": {"config": {"base_dir": "/tmp"}}}}),  # noqa: S108 - only a text
        launch("resources: {io_manager: {config: {base_dir: x}}}"),
        launch({"execution": {"config": {"multiprocess": {"max_concurrent": ENV}}}}),
        json.dumps([json.loads(launch(config(reason=ENV)))]).encode(),
        json.dumps({"query": LAUNCH, "variables": json.dumps({"p": {"runConfigData": config(reason=ENV)}})}).encode(),
        json.dumps({"query": "query($c: RunConfigData = {ops: {env: \"A\"}}) { x(runConfigData: $c) }"}).encode(),
        json.dumps({"query": 'mutation { launchRun(executionParams: {runConfigData: {a: {env: "A"}}}) { x } }'}).encode(),
        json.dumps({"query": 'mutation { launchRun(executionParams: {runConfigData: "a: {env: A}"}) { x } }'}).encode(),
        json.dumps({"query": 'mutation { launchRun(executionParams: {runConfigData: "{\\u0065nv: A}"}) { x } }'}).encode(),
        json.dumps({"query": "{ x }", "variables": {"a": json.loads("[" * 900 + "]" * 900), "e": ENV}}).encode(),
    ],
)  # fmt: skip
def test_a_request_with_variables_or_resources_is_refused_in_any_spelling(body: bytes) -> None:
    assert refused(body)


@pytest.mark.parametrize(
    "body",
    [
        launch(config(held=["0123456789ab"], only=["students:removed"], reason="Frau Meier called, env. 5 left")),
        launch("ops: {sync: {config: {details: all, reason: 'see resources \\ env'}}}"),
        launch({}),
        json.dumps({"query": "{ instance { id } resources: version env: version }"}).encode(),
        json.dumps({"query": "query env($env: String) { x(a: $env) }", "variables": {"a": "env"}}).encode(),
        b"no JSON", b'{"query": 7}', b'{"query": "{"}', b"[]", b"\xff",
    ],
)  # fmt: skip
def test_any_other_request_is_passed_on(body: bytes) -> None:
    assert not refused(body)


def ask(body: bytes, *, path: str = "/graphql", method: str = "POST") -> tuple[int, bytes]:
    """The answer to a body that arrives in parts; the app behind echoes the body."""
    parts = [body[i : i + 1000] for i in range(0, len(body), 1000)] or [b""]
    arriving = [{"type": "http.request", "body": p, "more_body": p is not parts[-1]} for p in parts]
    sent: list[Message] = []

    async def receive() -> Message:
        return arriving.pop(0) if arriving else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        got = b""
        while (message := await receive())["type"] == "http.request":
            got += message["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": got})

    scope = {"type": "http", "path": path, "method": method, "headers": []}
    asyncio.run(Launches(app)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"]


def test_the_app_gets_a_body_unchanged_and_no_larger_than_allowed() -> None:
    good, bad = launch(config(reason="r" * 5000)), launch(config(reason=ENV))
    assert ask(good) == (200, good)
    assert ask(bad) == ask(bad, path="/graphql/") == (403, NO_VARIABLES.encode())
    assert ask(bad, path="/report_asset_check/x") == (200, bad)
    assert ask(b" " * (MAX_BYTES + 1))[0] == 413


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_run_has_the_guards_account_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_guarded: bool
) -> None:
    """To Dagster's own webserver anybody may send that header."""
    monkeypatch.setattr(RunCoordinator, "is_guarded", is_guarded)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        queue = RunCoordinator()
        queue.register_instance(instance)
        run = instance.create_run_for_job(dg.GraphDefinition("nothing").to_job(), tags={BY_TAG: "forged"})
        monkeypatch.setattr(dg.SubmitRunContext, "get_request_header", lambda *_: "head")
        monkeypatch.setattr(dg.QueuedRunCoordinator, "submit_run", lambda *_: None)  # the type wants a code location
        queue.submit_run(dg.SubmitRunContext(run, None))  # type: ignore[arg-type]
        assert instance.get_runs()[0].tags[BY_TAG] == ("head" if is_guarded else "")
