"""Answers to an operator's questions about a warehouse.

    status.py        what was synced last, whether it is fresh, how much disk it uses
    capacity.py      how much disk a sync and a year need, and what retention would delete
    data_quality.py  where the source contradicts itself
    diff.py          what a sync would do now
    doctor.py        whether a sync could run at all
    discard.py       a landing taken back, or put back
    prune.py         days that have expired, now
    erase.py         one student erased, or held from it

Nothing here prints or knows Dagster. What changes the warehouse does so as its writer. Deleting expired days is part of
a sync.
"""
