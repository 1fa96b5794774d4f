"""A records service in a process of its own, fast enough to leave no mark on what is measured: pages are encoded before
a night, and a search looks through one text.

Each line of its input is answered with a line. `day 2026-11-27` plays a day. `latency 20` waits so many milliseconds
before each answer. `asked` tells what was asked since the last such line, as JSON: of each request the target, when the
request came, and when its answer had been sent, in seconds since 1970.
"""

from __future__ import annotations

import json
import socketserver
import sys
import time
from bisect import bisect_right
from datetime import UTC, date, datetime
from itertools import accumulate
from threading import Thread
from urllib.parse import parse_qsl, urlsplit

from rollbook.sandbox import MadeUpInstitution, ReceivedRequest, Service
from rollbook.sandbox.institution import Record
from rollbook.sandbox.service import SEARCHED

KEY = "bench-key"
ROOT = "/svcapi/v1/"
LIMIT = 100


class Quick(Service):
    """A service that remembers its answers, as they are sent."""

    def __init__(self, institution: MadeUpInstitution, day: date) -> None:
        played = institution.on(day)
        super().__init__(played.students, played.classes, key=KEY)
        self.now = lambda: datetime.combine(day, datetime.now(UTC).time())
        # By path: the searched fields of all records, one behind the other, and where each record's begin.
        self._texts: dict[str, tuple[str, list[int]]] = {}
        self._sent: dict[str, bytes] = {}
        for path, records in (("students", self.students), ("classes", self.classes)):
            texts = ["\0".join((*(str(each.get(n) or "").casefold() for n in SEARCHED[path]), "")) for each in records]
            self._texts[path] = "".join(texts), [0, *accumulate(map(len, texts))]
            for page in range(1, len(records) // LIMIT + 2):
                self.sent(f"{ROOT}{path}?page={page}&limit={LIMIT}")

    def sent(self, target: str) -> bytes:
        """The answer to a request with the right key: head and body."""
        if (known := self._sent.get(target)) is not None:
            return known
        parts = urlsplit(target)
        path = parts.path.removeprefix(ROOT)
        reply = self.answer(ReceivedRequest(path=path, params=dict(parse_qsl(parts.query)), headers={"x-api-key": KEY}))
        content = reply.content()
        head = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        sent = f"HTTP/1.1 {reply.status} -\r\n{head}content-length: {len(content)}\r\n\r\n".encode() + content
        if path != "auth":  # which tells the time
            self._sent[target] = sent
        return sent

    def _search(self, request: ReceivedRequest, records: list[Record]) -> list[Record]:
        sought = (request.search or "").casefold()
        if not sought:
            return records
        text, starts = self._texts[request.path]
        found, at = list[Record](), text.find(sought)
        while at >= 0:
            number = bisect_right(starts, at) - 1
            found.append(records[number])
            at = text.find(sought, starts[number + 1])
        return found


class Server(socketserver.ThreadingTCPServer):
    """Answers on a free port of loopback."""

    daemon_threads = True

    def __init__(self, quick: Quick) -> None:
        self.quick, self.latency = quick, 0.0
        self.asked: list[tuple[str, float, float]] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: Server

    def handle(self) -> None:
        while line := self.rfile.readline():
            came = time.time()
            while self.rfile.readline().strip():
                pass
            target = line.split()[1].decode()
            answer = self.server.quick.sent(target)
            if self.server.latency:
                time.sleep(self.server.latency)
            self.wfile.write(answer)
            self.server.asked.append((target, came, time.time()))


def main() -> None:
    """Serve until the input ends."""
    institution = MadeUpInstitution(int(sys.argv[1]))
    with Server(Quick(institution, date.fromisoformat(sys.argv[2]))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        for line in sys.stdin:
            what, *value = line.split()
            answer: object = "ready"
            if what == "day":
                server.quick = Quick(institution, date.fromisoformat(value[0]))
            elif what == "latency":
                server.latency = float(value[0]) / 1000
            else:
                answer, server.asked = server.asked, []
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
