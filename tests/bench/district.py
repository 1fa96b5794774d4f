"""A district's services in a process of their own: many made-up schools on several hosts, the last of which is slow.

Prints the hosts' addresses on one line. Each line of its input is the next day to play.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from datetime import date

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from pipelines.sandbox import Institution, School, make_app

# Schools are made up of so many different ones; the others are the same under another key and id.
DIFFERENT = 10
HOSTS = 10
SLOW_SECONDS = 0.5  # for each answer of the slow host


def key_of(number: int) -> str:
    """Return the key of a school."""
    return f"bench-key-{number}"


class Host:
    """One address, with the schools behind it by their keys."""

    def __init__(self, apps: dict[str, ASGIApp], delay: float) -> None:
        self._apps = {key.encode(): app for key, app in apps.items()}
        self._delay = delay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for the school whose key came."""
        await asyncio.sleep(self._delay)
        await self._apps[dict(scope["headers"])[b"x-api-key"]](scope, receive, send)


def main() -> None:
    """Serve until the input ends."""
    count, students, day = int(sys.argv[1]), int(sys.argv[2]), date.fromisoformat(sys.argv[3])
    made = [Institution(students, seed, quiet=True) for seed in range(1, DIFFERENT + 1)]
    apps = {
        key_of(n): make_app(
            made[n % DIFFERENT], day=day, api_key=key_of(n), school=School(n, f"School {n}", f"school-{n}")
        )
        for n in range(1, count + 1)
    }
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(HOSTS + 1)]
    for number, listener in enumerate(listeners):
        host = Host(dict(apps), SLOW_SECONDS if number == HOSTS else 0.0)
        config = uvicorn.Config(host, lifespan="off", ws="none", log_config=None, access_log=False)
        threading.Thread(target=uvicorn.Server(config).run, kwargs={"sockets": [listener]}, daemon=True).start()
    print(*(f"http://127.0.0.1:{listener.getsockname()[1]}" for listener in listeners), flush=True)
    for line in sys.stdin:
        for app in apps.values():
            app.state.service.day = date.fromisoformat(line.strip())
        print("ready", flush=True)


if __name__ == "__main__":
    main()
