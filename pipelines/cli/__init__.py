"""The `rollbook` command: it reads arguments and prints results. The work itself is done by the other packages.

`app` holds what all commands share; each group of commands is a module of its own.
"""

import gc

gc.set_threshold(100_000)  # what is loaded at the start is never garbage; looking for some took a sixth of it

from pipelines.cli import (  # noqa: E402
    aggregates,
    codes,
    demo,
    diagnostics,
    erase,
    explore,
    fleet,
    fleet_build,
    fleet_rebuild,
    mirror,
    prune,
    read,
    run,
    serve,
    subject,
)
from pipelines.cli.app import app, main  # noqa: E402

__all__ = [
    "aggregates",
    "app",
    "codes",
    "demo",
    "diagnostics",
    "erase",
    "explore",
    "fleet",
    "fleet_build",
    "fleet_rebuild",
    "main",
    "mirror",
    "prune",
    "read",
    "run",
    "serve",
    "subject",
]
