"""The `rollbook` command: it reads arguments and prints results. The work itself is done by the other packages.

`app` holds what all commands share; each group of commands is a module of its own.
"""

from pipelines.cli import demo, diagnostics, prune, read, run, serve
from pipelines.cli.app import app, main

__all__ = ["app", "demo", "diagnostics", "main", "prune", "read", "run", "serve"]
