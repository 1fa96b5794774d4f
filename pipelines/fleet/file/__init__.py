"""One place to ask: `fleet.duckdb` and `fleet-pseudonymous.duckdb`, made of what the institutions give.

    gathering.py     a consistent set of what they give, for one build
    pseudonymous.py  the same of their pseudonymous files
    standing.py      the institutions themselves: who is there, up to which day, and what became of the last night
    rollups.py       the figures by institution, computed by an engine
    build.py         makes the files of it
    output.py        the figures in an object store

What an institution gives is written at its publish, in `store.parts`; what the files hold is said in `views.fleet`.
"""
