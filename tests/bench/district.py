"""A district's services in a process of their own: many made-up schools on several hosts, one of them slow, one dead.

Prints one line of JSON: the hosts' addresses. Each line of its input is the next day to play.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from pipelines.sandbox import Institution, School, make_app
from tests.support.processes.commands import Program, program
from tests.support.processes.servers import free_port

# Schools are made up of so many different ones; the others are the same under another key and id.
DIFFERENT = 10
HOSTS = 10
SLOW_SECONDS = 0.5  # for each answer of the slow host


def key_of(number: int) -> str:
    """The key of a school."""
    return f"bench-key-{number}"


class Host:
    """One address, with the schools behind it by their keys."""

    def __init__(self, apps: dict[str, ASGIApp], *, delay: float = 0.0) -> None:
        self._apps = {key.encode(): app for key, app in apps.items()}
        self._delay = delay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for the school whose key came."""
        if self._delay:
            await asyncio.sleep(self._delay)
        key = dict(scope["headers"]).get(b"x-api-key", b"")
        await self._apps.get(key, next(iter(self._apps.values())))(scope, receive, send)


class District:
    """The services in another process, and an address at which nothing answers."""

    def __init__(self, running: Program) -> None:
        self.play = running.ask  # returns once the day's records are made
        *self.hosts, self.slow = json.loads(running.read())
        self.dead = f"http://127.0.0.1:{free_port()}"


@contextmanager
def remote(institutions: int, students: int, day: date) -> Iterator[District]:
    """Serve a district from another process for as long as the block lasts."""
    with program("-m", "tests.bench.district", institutions, students, day) as running:
        yield District(running)


def main(arguments: Sequence[str]) -> None:
    """Serve until the input ends: the schools 1 to n on all hosts but the last, which is slow and has them all."""
    count, students, day = int(arguments[0]), int(arguments[1]), date.fromisoformat(arguments[2])
    made = [Institution(students, seed, quiet=True) for seed in range(1, DIFFERENT + 1)]
    apps = {
        key_of(n): make_app(
            made[n % DIFFERENT], day=day, api_key=key_of(n), school=School(n, f"School {n}", f"school-{n}")
        )
        for n in range(1, count + 1)
    }
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(HOSTS + 1)]
    for number, listener in enumerate(listeners):
        host = Host(dict(apps), delay=SLOW_SECONDS if number == HOSTS else 0.0)
        config = uvicorn.Config(host, lifespan="off", ws="none", log_config=None, access_log=False)
        threading.Thread(target=uvicorn.Server(config).run, kwargs={"sockets": [listener]}, daemon=True).start()
    print(json.dumps([f"http://127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]), flush=True)
    for line in sys.stdin:
        for app in apps.values():
            app.state.service.day = date.fromisoformat(line.strip())
        print("ready", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
