"""Which institution is next: those under way at a time shall ask as many different hosts as there are."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping


class Queue:
    """The institutions that wait, by host."""

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
        """The next institution: of a host that the fewest ask at the moment, and of these the one with most to do."""
        host = min(self._waiting, key=lambda host: (self._asked[host], -len(self._waiting[host])))
        name = self._waiting[host].popleft()
        if not self._waiting[host]:
            del self._waiting[host]
        self._asked[host] += 1
        return name

    def done(self, name: str) -> None:
        """Count an institution's host as asked by one fewer."""
        self._asked[self._hosts[name]] -= 1
