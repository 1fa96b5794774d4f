"""Many institutions of a registry, each with a warehouse of its own.

nights/        their nights: runs, processes, outcomes
file/          one file to ask about all of them
history/       their histories again, from their lakes
engine/        what computes over all of them: DuckDB, Sail or Spark
overview.py    all institutions at a glance
prometheus.py  the same for a monitoring system
report.py      the page: who is up to date and who is not, where the contract drifts; `page.html` is its template
edit.py        adds, pauses and resumes an institution in `institutions.toml`
"""
