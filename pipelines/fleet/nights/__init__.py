"""The institutions' nights, one after the other or side by side.

outcomes.py     what came of each institution's last night, in `fleet/state/`; when a refused key pauses one
runner.py       a run: who is left out, who is worked for, what came of each
order.py        which institution is next
processes.py    the processes of a run, and how they end
worker.py       what such a process does for its one institution
backfilling.py  one institution's backfill
watching.py     whose night is late, and who is told
warm.py         what is imported once, before these processes are forked
"""
