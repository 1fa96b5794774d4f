"""The institutions of a registry, each with a warehouse of its own.

nights/        nightly runs: processes, outcomes, alerts
file/          builds `fleet.duckdb`, one file with all institutions
history.py     recomputes the histories from the lakes, and publishes or compares them
engine/        the engines that compute over all institutions: DuckDB, Sail or Spark
overview.py    all institutions at a glance
prometheus.py  the same for a monitoring system
report.py      the page: which institutions are up to date, where the contract drifts; `page.html` is its template
edit.py        adds, pauses and resumes an institution in `institutions.toml`
"""
