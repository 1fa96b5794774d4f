"""Builds `fleet.duckdb` and `fleet-pseudonymous.duckdb` from the parts that the institutions publish.

    gathering.py     a consistent set of parts, for one build
    pseudonymous.py  the same from the institutions' pseudonymous files
    standing.py      the table `institutions`: each one's newest day and last night
    rollups.py       the figures by institution, computed by an engine
    build.py         builds the files
    output.py        copies the figures to an object store

`store.parts` writes an institution's parts when it publishes; `views.fleet` declares what the files hold.
"""
