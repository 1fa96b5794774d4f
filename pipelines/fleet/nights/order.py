"""Which institution is next: concurrent syncs are spread over as many hosts as possible."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping


class Queue:
    """The waiting institutions, by host."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        """`hosts` has each institution's host by name, in the registry's order."""
        self._hosts = hosts
        self._waiting: dict[str, deque[str]] = {}
        for name, host in hosts.items():
            self._waiting.setdefault(host, deque()).append(name)
        self._asked: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def next(self) -> str:
        """The next institution: from the host with the fewest running syncs, and on a tie the longest queue."""
        host = min(self._waiting, key=lambda host: (self._asked[host], -len(self._waiting[host])))
        name = self._waiting[host].popleft()
        if not self._waiting[host]:
            del self._waiting[host]
        self._asked[host] += 1
        return name

    def done(self, name: str) -> None:
        """Free the place that an institution took at its host."""
        self._asked[self._hosts[name]] -= 1
