"""The institutions of a registry, each with a warehouse of its own.

nights.py      runs over all institutions: processes, outcomes, alerts
warm.py        imported once, before the processes are forked
outcomes.py    the outcome of each institution's last night, in `fleet/state/`; pauses
build.py       builds `fleet.duckdb`, one file with all institutions
history.py     recomputes the histories from the lakes, and publishes or compares them
engine/        the engines that compute over all institutions: DuckDB, Sail or Spark
overview.py    all institutions at a glance: for a monitoring system, and as a page, of the template `page.html`
"""
