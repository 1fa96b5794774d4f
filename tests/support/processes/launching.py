"""Launches in the UI, as its pages ask for them; and the processes below a server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from rollbook.util.machine import descendants
from tests.support.processes.servers import Served

LAUNCH = """mutation($job: String!, $config: RunConfigData, $tags: [ExecutionTag!]) { launchRun(executionParams: {
  selector: {repositoryLocationName: "rollbook", repositoryName: "__repository__", jobName: $job},
  runConfigData: $config, executionMetadata: {tags: $tags}}) { __typename
  ... on LaunchRunSuccess { run { runId } } ... on PythonError { message stack } } }"""
AGAIN = """mutation($of: String!) { launchRunReexecution(reexecutionParams: {parentRunId: $of, strategy: ALL_STEPS})
  { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message stack } } }"""


def launch(served: Served, query: str, **variables: Any) -> str:
    """Launch a run; returns its id, or the answer where Dagster refuses to launch it."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {served.kept.read().token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{served.port}/graphql", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - loopback
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        text = error.read().decode()
    ((_, outcome),) = (json.loads(text)["data"] or {"": {}}).items()
    return str(outcome["run"]["runId"]) if outcome and "run" in outcome else text


def below(number: int) -> set[int]:
    """A process, with all that it has started and those have."""
    return {number, *descendants(number)}


def is_running(number: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
