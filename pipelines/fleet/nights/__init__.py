"""The institutions' nightly runs, in parallel processes.

outcomes.py     the outcome of each institution's last night, in `fleet/state/`; when a refused key pauses one
runner.py       a run: selects institutions, runs their tasks, collects the outcomes
order.py        which institution is next
processes.py    the process pool of a run
worker.py       the work of one process for its one institution
backfilling.py  one institution's backfill
watching.py     alerts about late nights
warm.py         imported once, before the processes are forked
"""
