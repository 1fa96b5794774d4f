"""One student among others, for tests of what is held about a student: nothing of a neighbour may be handed out."""

from __future__ import annotations

from typing import Any

from rollbook.rights.personal import Section
from rollbook.rights.subject import Subject
from tests.support.records import Record, entry, student

ME = 4711
EVIL = '=HYPERLINK("http://x.example")<script>alert(1)</script> O\'Hara & "Sons" \u202eback'


def neighbour(ident: Any, **over: Any) -> Record:
    """A student of whom nothing may be handed out: every text says so."""
    return student(
        ident, name=f"NEIGHBOUR {ident}", first_name="NEIGHBOUR", last_name=f"NEIGHBOUR{ident}",
        email=f"NEIGHBOUR.{ident}@school.example", reference_id=f"NEIGHBOUR-{ident}",
        profile_image=f"https://img.school.example/NEIGHBOUR{ident}.png",
        classes=[entry(), entry(class_id=502, class_title="NEIGHBOURS only")], **over,
    )  # fmt: skip


def me(**over: Any) -> Record:
    return student(ME, **{"name": EVIL, "reference_id": "+ME", **over})


# My own id is among the first page's.
OTHERS = [neighbour(i) for i in (1, 2, 47, 471, 47110, 11471, *range(5000, 5014))]


def section(subject: Subject, name: str) -> Section:
    (one,) = [s for s in subject.sections if s.name == name]
    return one


def column(subject: Subject, name: str, *wanted: str) -> list[tuple[Any, ...]]:
    of = section(subject, name)
    at = [[c["name"] for c in of.columns].index(w) for w in wanted]
    return [tuple(row[n] for n in at) for row in of.rows]
