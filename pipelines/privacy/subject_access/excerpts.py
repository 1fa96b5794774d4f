"""What the raw landings hold about one student: the student's own records, and nothing of any other pupil.

Every body is searched, also those of walks and landings that did not count. Records are matched by id alone, read as
everywhere here (`records`), so refused records with a readable id are found, too. Of a page with a hundred pupils, only
the one record is taken. In undeclared fields, the service may have nested another pupil's record in this one's: it is
redacted. If this pupil's record is nested in another's or in a class, only that part is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from pipelines.flatten.shapes import shape
from pipelines.landing.manifest import Body, Manifest
from pipelines.landing.raw import RawStore
from pipelines.records import REPLACEMENT, UNREADABLE, as_id, cut_nesting, replace_lone_surrogates
from pipelines.tables import SETS, TABLES, of_set

# The key of student records, and the sets whose records have it.
KEY = SETS["students"].key
OF_STUDENTS = tuple(s.name for s in SETS.values() if s.key == KEY)
LISTED = tuple(s.name for s in SETS.values() if s.walked)

LEFT_OUT = "left out: another person's record"
# Fields that only a person's record has. Not `name`: some services use it for class titles.
_OF_PERSONS = {
    step for t in of_set("students") for c in t.columns if c.personal and (step := c.path[-1]) != "name"
}  # fmt: skip


Row = tuple[Any, ...]


class Landings(NamedTuple):
    """What all landings hold about one student: rows of `RECORDS`, `REFUSED` and `SEARCHES`.

    `unnamed` counts rejects without a readable id.
    """

    records: list[Row]
    refused: list[Row]
    searches: list[Row]
    unnamed: int


LANDING = {"snapshot_date": "DATE", "landing": "BIGINT", "landing_is": "VARCHAR", "set_name": "VARCHAR"}
# Records as received. `set_name` and `kind` describe the request, `where` the record that it was nested in.
RECORDS = LANDING | {
    "kind": "VARCHAR", "walk": "BIGINT", "page": "BIGINT", "position": "BIGINT",
    "received_at": "TIMESTAMP WITH TIME ZONE", "where": "VARCHAR", "record": "VARCHAR",
}  # fmt: skip
REFUSED = LANDING | {"page": "BIGINT", "position": "BIGINT", "reason": "VARCHAR", "record": "VARCHAR"}
# Searches for the student by name, after a walk no longer listed the record. `answer` is the result.
SEARCHES = {"snapshot_date": "DATE", "landing": "BIGINT", "asked_by": "VARCHAR", "answer": "VARCHAR"}


def search(raw: RawStore, student: int, progress: Callable[[int, int], None]) -> Landings:
    """Search every landing for a student, including discarded ones. Calls `progress` with (landings done, landings).

    Raises DamagedError for a landing that cannot be read: the answer must not silently skip it.
    """
    manifests = [(m, m.verdict.value if m.verdict else "without a verdict") for m in raw.manifests()]
    manifests += [(m, "discarded") for m, _ in raw.discarded()]
    manifests.sort(key=lambda landing: (landing[0].snapshot_date, landing[0].landing))
    records: list[Row] = []
    refused: list[Row] = []
    searches: list[Row] = []
    unnamed = 0
    for number, (manifest, landing_is) in enumerate(manifests, start=1):
        at = (manifest.snapshot_date, manifest.landing)
        records.extend((*at, landing_is, *found) for found in _excerpts(raw, manifest, student))
        searches.extend(
            (*at, ", ".join(a.asked_by), a.answer)
            for a in manifest.absences
            if a.set in OF_STUDENTS and a.id == student
        )
        rejects = [r for r in raw.rejects(manifest) if r.set in OF_STUDENTS]
        refused.extend(
            (*at, landing_is, r.set, r.page, r.position, r.reason, without_others(r.record, student))
            for r in rejects
            if r.id == student
        )
        unnamed += sum(r.id is None for r in rejects)
        progress(number, len(manifests))
    return Landings(records, refused, searches, unnamed)


def without_others(text: str, student: int, *, is_own: bool = True) -> str:
    """A record's JSON with other people's nested records redacted; text that is not JSON is returned unchanged.

    Unless the record `is_own` (matched by its id), it may be another person's itself and is then redacted whole.
    """
    try:
        value = msgspec.json.decode(cut_nesting(text.encode()))
    except UNREADABLE:
        return text
    kept = _redacted(value, student, is_own=is_own)
    return text if kept == value else msgspec.json.encode(kept).decode()


def _excerpts(raw: RawStore, manifest: Manifest, student: int) -> Iterator[Row]:
    """The rows of `RECORDS` in one landing, from `set_name` on."""
    for set_name in (*LISTED, *(s for s in OF_STUDENTS if s not in LISTED)):
        looks_within = _may_hold_more_than_declared(manifest, set_name)
        for body, received in raw.everything(manifest, set_name):
            content = replace_lone_surrogates(received, REPLACEMENT)
            if set_name in LISTED:
                found = _listed(body, content, student, looks_within=looks_within)
            else:
                found = _single(body, content, student)
            for position, *rest in found:
                yield set_name, body.kind, body.walk, body.page, position, body.received_at, *rest


def _may_hold_more_than_declared(manifest: Manifest, set_name: str) -> bool:
    """Whether records of a set may hold nested records; declared fields never do."""
    if manifest.verdict is None or manifest.rejected.get(set_name):
        return True
    return any(d.set == set_name and d.type in ("array", "object") for d in manifest.drift)


# The position in the page, what the record was nested in, and the record.
Found = tuple[int | None, str, str]


def _listed(body: Body, content: bytes, student: int, *, looks_within: bool) -> Iterator[Found]:
    """The student's records in a page."""
    of = shape(body.set)
    is_about_students = body.set in OF_STUDENTS
    for position, raw in enumerate(of.raws(content), start=1):
        record = bytes(raw)
        if is_about_students and of.id_of(record) == student:
            yield position, "", without_others(record.decode(errors="replace"), student)
        elif looks_within and str(student).encode() in record:
            for part in _parts(_decoded(record), student):
                yield position, f"part of a record of {body.set}", part


def _single(body: Body, content: bytes, student: int) -> Iterator[Found]:
    """The student's records in the response to a request for one student."""
    envelope = _decoded(content)
    data = envelope.get("data", envelope) if isinstance(envelope, dict) else envelope
    named = as_id(data.get(KEY) or data.get("id")) if isinstance(data, dict) else None
    if body.sought == student and named in (student, None):
        text = content.decode(errors="replace") if data is None else msgspec.json.encode(data).decode()
        yield None, "", without_others(text, student)
    elif str(student).encode() in content:
        for part in _parts(data, student):
            yield None, f"part of another answer of {body.set}", part


def _decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(cut_nesting(content))
    except UNREADABLE:
        return None


def _person(value: dict[str, Any]) -> int | None:
    """The student id of an object that is a pupil's record; None for anything else."""
    if (found := as_id(value.get(KEY))) is not None:
        return found
    return as_id(value.get("id")) if _OF_PERSONS & value.keys() else None


def _redacted(value: Any, student: int, *, is_own: bool = False) -> Any:
    if isinstance(value, list):
        return [_redacted(item, student) for item in value]
    if not isinstance(value, dict):
        return value
    if not is_own and _person(value) not in (student, None):
        return LEFT_OUT
    return {key: _redacted(item, student) for key, item in value.items()}


def _parts(value: Any, student: int) -> Iterator[str]:
    """The outermost objects in a value that are the student's record, as JSON."""
    if isinstance(value, dict):
        if _person(value) == student:
            yield msgspec.json.encode(_redacted(value, student)).decode()
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _parts(item, student)


# Columns that hold whole records.
WHOLE_RECORDS = {c.name for t in TABLES.values() for c in t.columns if c.type == "JSON"} | {"record"}
