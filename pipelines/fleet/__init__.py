"""Many institutions of a registry, each with a warehouse of its own.

Their nights, one after the other or side by side:

    outcomes.py    what came of each institution's last night, in `fleet/state/`; when a refused key pauses one
    runner.py      a run: who is left out, who is worked for, what came of each
    order.py       which institution is next
    processes.py   the processes of a run, and how they end
    rebuilding.py  one institution's backfill
    worker.py      what such a process does for its one institution
    warm.py        what is imported once, before these processes are forked
    overview.py    all institutions at a glance
    prometheus.py  the same for a monitoring system
    edit.py        adds, pauses and resumes an institution in `institutions.toml`

One place to ask:

    gathering.py   a consistent set of what the institutions give, for one build
    pseudonymous.py  the same of their pseudonymous files
    standing.py    the institutions themselves: who is there, up to which day, and what became of the last night
    engine/        what computes over all of them: DuckDB, Sail or Spark
    rollups.py     the figures by institution, computed by an engine
    build.py       makes fleet.duckdb and fleet-pseudonymous.duckdb of it
    output.py      the figures in an object store
    lakes.py       the institutions' lakes as one, for an engine
    histories.py   the histories of all of them, computed from that, and compared with what is published
    rebuild.py     publishes them, or says where they differ
    report.py      the page: who is up to date and who is not, where the contract drifts; `page.html` is its template

What an institution gives is written at its publish, in `store.parts`; what the files hold is said in `views.fleet`.
"""
