"""The `rollbook` command: it reads arguments and prints results. The work itself is done by the other packages.

`app` holds what all commands share; each group of commands is a module of its own.
"""

import gc

gc.set_threshold(100_000)  # imports leave no garbage: looking for it took a sixth of the start-up time

# Importing a module registers its commands; those of one panel are shown in this order, so `sync` comes first.
from pipelines.cli import run, serve  # noqa: E402, F401

# isort: split
from pipelines.cli import demo, diagnostics, explore, mirror, prune, read  # noqa: E402, F401
from pipelines.cli.app import app, main, sort_commands  # noqa: E402
from pipelines.cli.fleet import build, institutions, rebuild  # noqa: E402, F401
from pipelines.cli.privacy import aggregates, codes, erase, subject  # noqa: E402, F401

__all__ = ["app", "main"]

sort_commands()
