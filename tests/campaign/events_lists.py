"""Events of the school's own list: the office saves it, by id or by reference, spoils it, removes it or its folder."""

from __future__ import annotations

import shutil

from tests.campaign.campaign import Campaign, event
from tests.campaign.office import LIST, save


@event(weight=8)
def the_office_saves_its_list(c: Campaign) -> None:
    pupils = sorted({int(record["id"]) for record in c.showing().students.values()})
    chosen = c.random.sample(pupils, c.random.randint(0, len(pupils)))
    years = {pupil: str(c.random.randint(7, 13)) for pupil in chosen}
    save(c.warehouse, years)
    c.note(f"{len(years)} lines")
    c.sync()


@event(lambda c: (c.warehouse / LIST).exists(), weight=3)
def the_office_spoils_its_list(c: Campaign) -> None:
    (c.warehouse / LIST).write_bytes(
        c.random.choice([b"PK\x03\x04", b"", b'student_id,year\n1,"9\n', b"pupil,year\n1,9\n"])
    )
    c.sync()


@event(lambda c: (c.warehouse / LIST).exists(), weight=3)
def the_office_removes_its_list(c: Campaign) -> None:
    (c.warehouse / LIST).unlink()
    c.sync()


@event(lambda c: (c.warehouse / LIST).parent.exists(), weight=2)
def the_folder_of_lists_is_not_there(c: Campaign) -> None:
    shutil.rmtree((c.warehouse / LIST).parent)
    c.sync()
