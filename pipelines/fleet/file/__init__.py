"""Builds `fleet.duckdb` and `fleet-pseudonymous.duckdb` from the files that the institutions publish.

    gather.py   copies the institutions' rows
    build.py    builds the files; an engine computes the figures by institution
    output.py   copies the figures to an object store

`views.fleet` declares what the files hold.
"""
