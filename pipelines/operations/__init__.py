"""Answers to an operator's questions about a warehouse.

    status.py        what was synced last, whether it is fresh, how much disk it uses
    capacity.py      how much disk a sync and a year need, and what retention would delete
    data_quality.py  where the source contradicts itself
    diff.py          what a sync would do now
    erase.py         one student erased, or held from it
    doctor.py        whether a sync could run at all

Nothing here prints or knows Dagster; discarding, pruning and erasing change the warehouse. Deleting expired days is part of a sync.
"""
