"""The key and the pupils stay home (G12): what a made-up key and pupil leave behind.

One story of good and bad nights is lived through at full volume; then every log record, every error with all that is
chained to it, and every byte and value at rest is searched.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rollbook.errors import (
    ContractChangedError,
    HeldError,
    KeyRefusedError,
    NotTheContractError,
    OtherInstitutionError,
    RedirectError,
    RefusedError,
    RollbookError,
    UnreachableError,
)
from tests.support.nights import House, folder
from tests.support.processes import canary
from tests.support.processes.errors import everything_about
from tests.support.records import classes, school_class, student, students
from tests.support.wire import faults
from tests.support.wire.service import Asked, Reply, Service

pytestmark = pytest.mark.nights

KEY = "k3y-canary-7d1f0a"
# Texts by which a pupil or a teacher could be known. Each is found where records are kept, and nowhere else.
NAMES = (
    "Zebedee",
    "Canarybird",
    "zebedee.canarybird@pupils.example",
    "REF-CANARY-9",
    "Thaddeus Teachbird",
    "teachbird@",
)
PUPIL = student(
    9,
    name="Zebedee Canarybird",
    first_name="Zebedee",
    last_name="Canarybird",
    email="zebedee.canarybird@pupils.example",
    reference_id="REF-CANARY-9",
    profile_image="https://img.school.example/zebedee.png",
)
CLASS = school_class(501, teacher={"teacher_id": 9, "name": "Thaddeus Teachbird", "email": "teachbird@school.example"})
# No message of the service is passed on: the message may repeat the key, a name, or what a chat service takes for a
# command.
ECHO = f"<!channel> {KEY} of zebedee.canarybird@pupils.example may not see Zebedee Canarybird, REF-CANARY-9"
# Where records themselves are kept. The published file is of that kind, too.
OF_RECORDS = (".zst", ".parquet", ".duckdb", "rejects.jsonl")


@dataclass
class Heard:
    """The logs and errors of the story, and the modes of the files that there were after each night."""

    records: list[logging.LogRecord] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    modes: dict[Path, int] = field(default_factory=dict)

    def logs(self) -> str:
        """Every log record: as printed, and all parts."""
        formatter = logging.Formatter("%(name)s %(levelname)s %(message)s %(pathname)s")
        return "\n".join(formatter.format(r) + repr(vars(r)) for r in self.records)


class Listening(logging.Handler):
    def __init__(self, heard: Heard) -> None:
        super().__init__(logging.DEBUG)
        self.heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.records.append(record)


class Story:
    """Nights of a warehouse, and what was heard."""

    def __init__(self, house: House, heard: Heard) -> None:
        self.house = house
        self.service = house.service
        self.heard = heard
        self.number = 0

    def night(self, *expected: type[RollbookError], **sync: Any) -> None:
        """The next night, which may end in an error."""
        self.number += 1
        self.house.at(self.number)
        if not expected:
            self.house.sync(**sync)
        else:
            with pytest.raises(expected) as caught:
                self.house.sync(**sync)
            self.heard.errors.append(caught.value)
        for path in (self.house.warehouse, *self.house.warehouse.rglob("*")):
            self.heard.modes[path] = stat.S_IMODE(path.stat().st_mode)
        self.service.mend()


def live(story: Story) -> None:
    """Clean, spoiled, held, failed and reject-laden nights, with the pupil and the key in the midst.

    The views and the morning page are the last night's.
    """
    live_badly(story)
    service = story.service
    service.on(faults.refused(500, KEY, ECHO), path="student/9", times=None)
    service.on(faults.refused(404, KEY, ECHO), path="student/7", times=None)
    service.on(echo, path="student/8", times=None)
    story.night(details="all")
    # A mass change, and the approval.
    service.students = [PUPIL]
    story.night(HeldError)
    story.house.approve()
    # Another institution's key; and the first again, so that everything is in ops.
    school, service.school = service.school, {"id": 42, "name": "Another School", "key": "another-school"}
    story.night(OtherInstitutionError)
    service.school = school
    story.night()


def live_badly(story: Story) -> None:
    """The nights in which something is wrong with what the service says."""
    service = story.service
    everybody = [*students(8), PUPIL]
    service.students, service.classes = everybody, [CLASS, *classes(2, first=502)]
    story.night(details="all")
    # Refused, each for a reason of its own; by night 4 so many that the sync fails.
    service.students = [*students(8), PUPIL | {"registration_date": "Zebedee"}]
    story.night(details="changed")
    service.students = [*students(8), PUPIL | {"id": "Zebedee"}]
    story.night()
    service.students = [*students(3), *({**PUPIL, "id": i, "name": None} for i in range(4, 10))]
    story.night(ContractChangedError)
    # The pupil is gone, and is searched for by name: in vain, without an answer, and with a loud answer.
    service.students = students(8)
    for bend in (
        faults.reset(),
        faults.html(),
        faults.refused(400, KEY, ECHO),
        faults.redirect(f"https://{KEY}.example"),
    ):
        service.on(bend, path="students", search=True, times=None)
        story.night()
    service.on(faults.refused(401, "AUTH_REQUIRED", ECHO), path="students", search=True)
    story.night(KeyRefusedError)
    # Answers of a list, a detail or the auth check.
    service.students = everybody
    for path, bend, error in (
        ("students", faults.status(500, retry_after=KEY), UnreachableError),
        ("students", faults.cut_short(), UnreachableError),
        ("students", echo, NotTheContractError),
        ("students", faults.unsuccessful(ECHO), RefusedError),
        ("classes", faults.refused(403, "Zebedee Canarybird", ECHO), RefusedError),
        ("classes", faults.redirect("https://zebedee.canarybird.example/"), RedirectError),
        ("classes", faults.redirect(f"https://{KEY}@elsewhere.example/{KEY}?search=Zebedee"), RedirectError),
        ("auth", faults.refused(401, KEY, ECHO), KeyRefusedError),
        ("auth", faults.wrong_envelope({"success": True, "data": {"name": "Zebedee"}}), NotTheContractError),
    ):
        service.on(bend, path=path, times=None)
        story.night(error)


def echo(request: Asked, reply: Reply) -> Reply:
    return Reply(body=ECHO.encode())


@pytest.fixture(scope="module")
def lived_story() -> Iterator[tuple[Path, Heard]]:
    """The story, lived once, under the umask that most machines have: the warehouse, and what was heard."""
    heard = Heard()
    listening, root = Listening(heard), logging.getLogger()
    level, umask = root.level, os.umask(0o022)
    loud = [logging.getLogger(name) for name in ("httpx", "httpcore", "stamina", "filelock", "asyncio")]
    try:
        root.setLevel(logging.DEBUG)
        root.addHandler(listening)
        for logger in loud:
            logger.setLevel(logging.DEBUG)
        with folder() as path, Service(key=KEY) as service:
            live(Story(House(path / "warehouse", service, api_key=KEY, walks=2), heard))
            yield path / "warehouse", heard
    finally:
        root.removeHandler(listening)
        root.setLevel(level)
        for logger in loud:
            logger.setLevel(logging.NOTSET)
        os.umask(umask)


def files_of(warehouse: Path) -> dict[str, Path]:
    return {str(p.relative_to(warehouse)): p for p in sorted(warehouse.rglob("*")) if p.is_file()}


# --- the search ------------------------------------------------------------------------------------------------------


def test_the_key_is_in_no_log_no_error_and_no_file(lived_story: tuple[Path, Heard]) -> None:
    warehouse, heard = lived_story
    assert KEY not in heard.logs()
    assert KEY not in everything_about(*heard.errors)
    for name, path in files_of(warehouse).items():
        assert KEY not in name
        assert KEY.encode() not in path.read_bytes(), name
        assert KEY not in canary.contents(path), name


def test_pupils_are_in_no_log_and_no_error(lived_story: tuple[Path, Heard]) -> None:
    _, heard = lived_story
    assert len(heard.errors) == 13
    assert [r.name for r in heard.records if r.name.startswith("rollbook")], "nothing was heard at all"
    for text in (heard.logs(), everything_about(*heard.errors)):
        assert [n for n in NAMES if n.lower() in text.lower()] == []
        assert "search=" not in text


def test_pupils_are_only_in_the_files_that_hold_records(lived_story: tuple[Path, Heard]) -> None:
    warehouse, _ = lived_story
    hits: dict[str, set[str]] = {}
    for name, path in files_of(warehouse).items():
        assert not [n for n in NAMES if n in name]
        text = canary.contents(path)
        hits.setdefault(path.name if path.suffix in (".json", ".jsonl") else path.suffix, set()).update(
            n for n in NAMES if n in text
        )
        if not name.endswith(OF_RECORDS) or "/observed/" in name:
            assert [n for n in NAMES if n in text] == [], name
    # The words are where they belong, so the search does find them.
    assert hits[".zst"] == hits[".duckdb"] == hits[".parquet"] == set(NAMES)
    assert hits["rejects.jsonl"] == set(NAMES[:4])
    assert {"manifest.json", "pages.jsonl", "_day.json"} <= hits.keys()


def test_every_file_and_folder_was_the_owners_alone_after_every_night(lived_story: tuple[Path, Heard]) -> None:
    _, heard = lived_story
    folders = {above for path in heard.modes for above in path.parents}
    assert {str(p): oct(m) for p, m in heard.modes.items() if m not in (0o400, 0o600, 0o700)} == {}
    assert {str(p) for p, m in heard.modes.items() if m in (0o400, 0o600)} & set(map(str, folders)) == set()
    assert len([p for p in heard.modes if p.suffix == ".parquet"]) > 100
