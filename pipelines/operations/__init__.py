"""What an operator asks of a warehouse, and gets an answer to without anything being written.

    status.py        what was synced last, whether it is fresh, how much room it takes
    capacity.py      how much room a sync and a year need, and what retention would delete
    data_quality.py  where the source contradicts itself
    diff.py          what a sync would do now
    doctor.py        whether one could run at all

Nothing here prints, knows Dagster, or changes the warehouse. Only a sync does that, and expiring days is part of it.
"""
