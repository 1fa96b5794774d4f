"""The institutions of a registry, each with a warehouse of its own.

nights.py      runs over all institutions: processes, alerts, pauses, and the last outcomes, in `fleet/state/`; how all
               stand, for a monitoring system and as a page (`page.html`)
worker.py      a process that does one institution's night after the other
build.py       builds `fleet.duckdb`, one file with all institutions; rebuilds and compares their histories
tasks.py       what is done for one institution by itself, here or on another machine
spark.py       runs that as tasks of Spark or Sail
"""
