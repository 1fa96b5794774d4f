"""The sandbox in a process of its own, so that a measurement holds only the client's time and memory."""

from __future__ import annotations

import sys
from datetime import date

from rollbook.sandbox import Sandbox

KEY = "bench-key"


def main() -> None:
    """Serve until the input ends; each line of it is the next day to play."""
    students, day = int(sys.argv[1]), date.fromisoformat(sys.argv[2])
    with Sandbox(students, day=day, api_key=KEY) as sandbox:
        print(sandbox.url, flush=True)
        for line in sys.stdin:
            sandbox.day = date.fromisoformat(line.strip())
            print("ready", flush=True)


if __name__ == "__main__":
    main()
