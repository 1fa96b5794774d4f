"""The `rollbook` command. It words what came of the work; the work itself is done below.

`app` holds the commands and what they share, each group of commands is a file of its own.
"""

from pipelines.cli import demo, diagnostics, prune, read, run, serve
from pipelines.cli.app import app, main

__all__ = ["app", "demo", "diagnostics", "main", "prune", "read", "run", "serve"]
