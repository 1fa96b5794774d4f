"""A district's services in a process of their own: many made-up schools on several hosts, the last of which is slow.

Prints the hosts' addresses on one line. Each line of its input is the next day to play.
"""

from __future__ import annotations

import sys
from datetime import date
from functools import partial

from rollbook.sandbox import MadeUpInstitution, Sandbox
from tests.support.wire.service import Asked, Reply, Server

# Schools are made up of so many different ones; the others are the same under another key and id.
DIFFERENT = 10
HOSTS = 10
SLOW_SECONDS = 0.5  # for each answer of the slow host


def key_of(number: int) -> str:
    """Return the key of a school."""
    return f"bench-key-{number}"


def main() -> None:
    """Serve until the input ends."""
    count, students, day = int(sys.argv[1]), int(sys.argv[2]), date.fromisoformat(sys.argv[3])
    made = [MadeUpInstitution(students, seed) for seed in range(1, DIFFERENT + 1)]
    schools = {}
    for n in range(1, count + 1):
        about = {"id": n, "name": f"School {n}", "key": f"school-{n}"}
        schools[key_of(n)] = Sandbox(institution=made[n % DIFFERENT], day=day, api_key=key_of(n), school=about)

    def answer(request: Asked, delay: float = 0.0) -> Reply:
        reply = schools[request.headers["x-api-key"]].answer(request)
        return Reply(reply.payload, reply.status, reply.headers, delay=delay)

    late = partial(answer, delay=SLOW_SECONDS)
    print(*(Server(answer).url for _ in range(HOSTS)), Server(late).url, flush=True)
    for line in sys.stdin:
        for school in schools.values():
            school.day = date.fromisoformat(line.strip())
        print("ready", flush=True)


if __name__ == "__main__":
    main()
