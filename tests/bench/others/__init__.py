"""Other ways to copy the same records every night, as their documentation shows them: for `make bench ARGS=--beside`.

Each is a script for an environment of its own, run as `SCRIPT BASE_URL KEY FOLDER DAY`.
"""
