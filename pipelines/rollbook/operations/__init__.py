"""Answers to an operator's questions about a warehouse.

    status.py        what was synced last, whether it is fresh, how much disk it uses, a sync and a year need; expires
                     days without a sync
    data_quality.py  where the source contradicts itself
    diff.py          what a sync would do now (dry run)
    doctor.py        whether a sync could run
    discard.py       discards a landing, or undoes that

Nothing here prints or knows Dagster. Operations that change the warehouse take the writer lock. Every sync deletes
expired days, too.
"""
