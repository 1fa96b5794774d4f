"""`rollbook explore`: a small web app on loopback over the published file, for people who do not write SQL.

    server.py      serves it behind the guard of `util.request_guard`
    notebook.py    the app itself, a marimo notebook: menu, controls and pages
    pages.py       reads the published file and renders each page; long queries are in `sql/`

It only reads: each query has a read-only connection of its own, so a newer night is seen at once. Only `server.py` and
`notebook.py` import marimo, which comes with the extra `explore`.
"""
