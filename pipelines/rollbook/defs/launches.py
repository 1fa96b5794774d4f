"""Refuses GraphQL requests that read the environment, and records the account that asked for a run.

Dagster reads a launch's configuration with `{env: NAME}` in the place of any text or number, and takes the variable
from the environment of the process that holds the key to the records service. The UI has no login, and shows in a
run's page, or in an error, what it has read. So requests that name a variable are refused, and so is a launch's
`resources`, whose configuration Rollbook does not need.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import yaml
from dagster import DagsterRun, QueuedRunCoordinator, SubmitRunContext
from graphql import GraphQLError, parse
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rollbook.defs.partitions import BY_TAG
from rollbook.util.request_guard import ACCOUNT

MAX_BYTES = 2_000_000
# Words that a configuration may not hold as a key.
REFUSED = frozenset({"env", "resources"})
NO_VARIABLES = (
    "A launch may not name variables of the environment (`env`), nor `resources`: write the values themselves. See"
    " `rollbook sync --help` for what can be chosen.\n"
)
TOO_LARGE = "A query may not be that large.\n"


class Launches:
    """ASGI middleware in front of `/graphql`: refuses what `refused` finds with 403, and larger bodies with 413."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read a query, and pass it on or refuse it; pass on all other requests."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"].rstrip("/") != "/graphql":
            await self.app(scope, receive, send)
            return
        body = b""
        async for part in Request(scope, receive).stream():
            body += part
            if len(body) > MAX_BYTES:
                await PlainTextResponse(TOO_LARGE, 413)(scope, receive, send)
                return
        if refused(body):
            await PlainTextResponse(NO_VARIABLES, 403)(scope, receive, send)
            return
        parts: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def read() -> Message:
            return next(parts, None) or await receive()

        await self.app(scope, read, send)


def refused(body: bytes) -> bool:
    """Whether a query, or its variables, hold a mapping with a key of REFUSED, also in a text that is YAML or JSON, as
    a configuration may be. Unreadable text is passed on if no word of it could be such a key.
    """
    try:
        read = json.loads(body)
        operations = read if isinstance(read, list) else [read]
        queries = [each["query"] for each in operations if "query" in each]
        without = [{**each, "query": ""} for each in operations]
        return _holds(without, set()) or any(_holds(parse(text).to_dict(), set(), of_query=True) for text in queries)
    except (ValueError, TypeError, GraphQLError):
        return False  # Dagster cannot read it either
    except RecursionError:
        return True


def _holds(value: Any, seen: set[int], *, of_query: bool = False) -> bool:
    """Whether a value that was read holds such a key anywhere. In a parsed query, keys are the names of its fields."""
    if isinstance(value, str):
        return _text_holds(value)
    if not isinstance(value, dict | list) or id(value) in seen:  # YAML may refer to itself
        return False
    seen.add(id(value))
    if isinstance(value, list):
        return any(_holds(each, seen, of_query=of_query) for each in value)
    if of_query:
        is_key = value.get("kind") == "object_field" and value["name"]["value"] in REFUSED
        return is_key or any(_holds(each, seen, of_query=True) for name, each in value.items() if name != "loc")
    return not REFUSED.isdisjoint(value) or any(_holds(each, seen) for each in value.values())


def _text_holds(text: str) -> bool:
    if "\\" not in text and not any(word in text for word in REFUSED):
        return False
    try:
        read = json.loads(text)
    except ValueError:
        try:
            read = yaml.load(text, yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader)  # noqa: S506 - texts
        except yaml.YAMLError:
            return True
    return not isinstance(read, str) and _holds(read, set())


class RunCoordinator(QueuedRunCoordinator):
    """Dagster's queue; each run is tagged with the account that asked for it, if the guard knows it."""

    # Only behind the guard the header is the guard's own: to Dagster's own webserver anybody may send one.
    is_guarded: ClassVar[bool] = False

    def submit_run(self, context: SubmitRunContext) -> DagsterRun:
        """Queue a run. An account that the launch itself names is replaced."""
        by = (context.get_request_header(ACCOUNT) or "") if self.is_guarded else ""
        self._instance.add_run_tags(context.dagster_run.run_id, {BY_TAG: by})
        return super().submit_run(context)
