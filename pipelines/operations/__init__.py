"""Read-only answers to an operator's questions about a warehouse.

    status.py        what was synced last, whether it is fresh, how much disk it uses
    capacity.py      how much disk a sync and a year need, and what retention would delete
    data_quality.py  where the source contradicts itself
    diff.py          what a sync would do now
    doctor.py        whether a sync could run at all

Nothing here prints, knows Dagster, or changes the warehouse. Deleting expired days is part of a sync.
"""
