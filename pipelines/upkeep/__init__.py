"""What an operator asks of a warehouse, and gets an answer to without anything being written.

    status.py   what was synced last, whether it is fresh, how much room it takes
    room.py     how much room a sync and a year need, and what retention would let go of
    diff.py     what a sync would do now
    doctor.py   whether one could run at all

Nothing here prints, knows Dagster, or changes the warehouse; a sync does that, and letting go of days is a part of it.
"""
