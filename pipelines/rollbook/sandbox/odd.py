"""The habits of real services, all at once: records as PHP writes them, and answers as proxies give them.

Each of these was seen in public reports of people who read such services. Values keep their meaning:
a sync of an odd service stores what a sync of the plain one does.

The choice of odd records depends on their ids alone, and the choice of odd requests on their number. No request
fails twice in a row, so that a client which asks again gets its answer.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from itertools import count

from rollbook.sandbox.institution import Record
from rollbook.sandbox.service import ReceivedRequest, Reply

# What PHP tells before the JSON, as HTML and as plain text; and the mark that editors put at the start of its files.
_BEFORE = (
    b"<br />\n<b>Warning</b>: Undefined array key in <b>/srv/api/v1.php</b> on line <b>7</b><br />\n",
    b"\xef\xbb\xbf\xef\xbb\xbf",
    b"PHP Notice: Undefined index: page in /srv/api/v1.php on line 7",
)
_TOO_OFTEN = b'{"success": false, "message": "API rate limit exceeded, please slow down"}'
_PAGE_FOR_PEOPLE = b"<html><body>Something went wrong.</body></html>"
# How a proxy, or the server behind it, fails for a moment.
_FAILURES: tuple[tuple[int, dict[str, str]], ...] = (
    (502, {"content-type": "text/html"}),
    (429, {"retry-after": "0"}),
    (520, {"content-type": "text/html"}),
    (408, {}),
    (421, {}),
    (200, {"content-type": "application/json"}),  # with _TOO_OFTEN
    (503, {"retry-after": "0"}),
    (524, {"content-type": "text/html"}),
)
# The oddity of a student's record, by its id.
_WAYS: tuple[Callable[[Record], Record], ...] = (
    lambda own: (
        {"classes": {}} if own.get("classes") == [] else {}
    ),  # PHP's empty map is an empty list, and the reverse
    lambda own: {"classes": [*own["classes"], own["classes"][-1]]} if own.get("classes") else {},
    lambda own: {"classes": _with_gaps(own["classes"])} if own.get("classes") else {},
    lambda own: {"is_registered": own["is_registered"] == 1},
    lambda own: {"summary": {n: str(v) if isinstance(v, (int, float)) else v for n, v in own["summary"].items()}},
    lambda own: {n: f"{own[n]}T00:00:00Z" for n in ("registration_date",) if own[n]},
    lambda own: {n: f"{own[n]} 08:15:00" for n in ("registration_date",) if own[n]},
    lambda own: {n: f" {own[n]} " for n in ("name", "email") if own[n]},
    lambda own: {
        "summary": {n: v * (1 + 1e-15) if n.endswith("_rate") and v else v for n, v in own["summary"].items()}
    },
    lambda own: {"name": own["name"].encode("ascii", "xmlcharrefreplace").decode()},  # José as Jos&#233;
    *(lambda _: {},) * 13,
)
# How services write a date that is not there.
_NO_DATES = ("0000-00-00", "", "1970-01-01", False)
_FAILS_EVERY, _MARKED_EVERY, _PACKED_EVERY, _GAPPED_EVERY, _WRITTEN_BY_HAND_EVERY = 11, 3, 4, 5, 2  # requests


class Odd:
    """Answers as `answer` does, oddly."""

    def __init__(self, answer: Callable[[ReceivedRequest], Reply]) -> None:
        self._answer = answer
        self._count = count(1)

    def answer(self, request: ReceivedRequest) -> Reply:
        """Answer one request."""
        return self.oddly(request, self._answer(request))

    def oddly(self, request: ReceivedRequest, reply: Reply) -> Reply:
        """Give this reply oddly."""
        number = next(self._count)
        if number % _FAILS_EVERY == 0:
            status, headers = _FAILURES[number // _FAILS_EVERY % len(_FAILURES)]
            return Reply(status=status, headers=dict(headers), body=_TOO_OFTEN if status == 200 else _PAGE_FOR_PEOPLE)
        if reply.status != 200 or request.path not in ("students", "classes"):
            return reply
        write = student if request.path == "students" else school_class
        data = [write(each) for each in reply.payload["data"]]
        payload = reply.payload | {"data": _with_gaps(data) if number % _GAPPED_EVERY == 0 else data}
        content = json.dumps(payload, ensure_ascii=False).encode()  # writes NaN as PHP and Python do
        headers = dict(reply.headers)
        if number % _WRITTEN_BY_HAND_EVERY == 0:
            content = _by_hand(content)
        if number % _MARKED_EVERY == 0:
            content = _BEFORE[number // _MARKED_EVERY % len(_BEFORE)] + content
        if number % _PACKED_EVERY == 0 and "gzip" in request.headers.get("accept-encoding", ""):
            half = len(content) // 2
            content = gzip.compress(content[:half], 1) + gzip.compress(content[half:], 1)
            headers["content-encoding"] = "gzip"
        return Reply(headers=headers, body=content)


def student(record: Record) -> Record:
    """One student's record, written oddly if its id says so."""
    odd: Record = record | _WAYS[record["id"] % len(_WAYS)](record)
    if record["summary"]["average_score"] is None and record["id"] % 5 == 0:
        odd["summary"] = odd["summary"] | {"average_score": float("nan") if record["id"] % 2 else "N/A"}
    tracking = odd.get("activity_tracking")
    if tracking is None:
        odd["activity_tracking"] = [] if record["id"] % 2 else False
    elif not tracking["has_ever_logged_in"]:
        never = _NO_DATES[record["id"] % len(_NO_DATES)]
        odd["activity_tracking"] = tracking | {"first_login_date": never, "last_activity_date": never}
    return odd


def school_class(record: Record) -> Record:
    """One class's record, written oddly if its id says so."""
    odd = dict(record)
    activity = record["assignment_activity"]
    if not activity["has_assignments"]:
        odd["assignment_activity"] = activity | {"first_assignment_date": "", "last_assignment_date": "0000-00-00"}
    if record["class_id"] % 7 == 0:
        odd["student_count"] = str(record["student_count"])
        odd["class_status"] = record["class_status"] == 1
        odd["class_dateadded"] = f"{record['class_dateadded']} 00:00:00"
    return odd


def _by_hand(content: bytes) -> bytes:
    """Write JSON as a template does: a comma behind each value of a list, numbers filled up, `undefined` for null."""
    content = content.replace(b"}]", b"},]").replace(b": null", b": undefined")
    return re.sub(rb'("total_assignments": )(\d)', rb"\g<1>0\2", content)


def _with_gaps(entries: list[Record]) -> dict[str, Record]:
    """Write a list as PHP does once entries were filtered out."""
    return {str(2 * number): entry for number, entry in enumerate(entries)}
