"""Other ways to do Rollbook's work, measured on the same pages. Each runs in an environment of its own.

Each peer is a script beside a file of exact versions: `dlt_scd2.py` and `dlt_scd2.txt`. It is called as
`python SCRIPT BASE_URL FOLDER` with the key in BENCH_KEY, keeps its files below FOLDER, and prints one line of
JSON with the `seconds` from its start, imports left out, to the loaded tables. It imports nothing of Rollbook, and is
what the tool's documentation says to write. `environments.py` makes `.venv-peers/`.
"""
