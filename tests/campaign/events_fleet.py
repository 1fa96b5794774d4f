"""What happens in a fleet in which one institution is given another's key."""

from __future__ import annotations

from functools import partial

from pipelines.errors import OtherInstitutionError
from tests.campaign import damage
from tests.campaign.campaign import Campaign, event
from tests.support.nights import folder
from tests.support.records import classes, students
from tests.support.warehouses.district import District

NAMES = ("ash", "birch", "cedar")


@event()
def an_institution_gets_anothers_key(c: Campaign) -> None:
    names = NAMES[: c.random.randint(2, 3)]
    wrong, other = c.random.sample(names, 2)
    mistaken = c.random.choice([1, 1, 2])
    with folder() as made:
        district = District(made, [names])
        with district.hosts[0], district.in_environment():
            district.write()
            synced: set[str] = set()  # the institutions that have their own school's records
            taken = False  # whether the wrong one has another's
            for number in (1, 2, 3):
                for name in c.random.sample(names, len(names)):
                    district[name].students = students(3 + NAMES.index(name), first=100 * NAMES.index(name) + 1)
                    district[name].classes = classes(1)
                    house = district.house(name).at(number)
                    is_wrong = name == wrong and number == mistaken
                    over = {"api_key": district[other].key} if is_wrong else {}
                    error = c.run(partial(house.sync, over=over))
                    c.note(f"{name}, night {number}{', with the key of ' + other if is_wrong else ''}: {error!r}")
                    if is_wrong:
                        # Before anybody has synced, nothing tells the one from the other.
                        assert isinstance(error, OtherInstitutionError) or not synced & {wrong, other}
                        taken = error is None
                    elif name == wrong and taken:
                        assert isinstance(error, OtherInstitutionError), error
                        damage.remove(house.warehouse)  # another's records: it begins again
                        assert c.run(house.sync) is None
                        taken = False
                    else:
                        assert error is None, f"{name} is right"
                    if not is_wrong:
                        synced.add(name)
                        ids = [(s["id"],) for s in district[name].students]
                        assert house.query("SELECT student_id FROM students ORDER BY ALL") == ids
