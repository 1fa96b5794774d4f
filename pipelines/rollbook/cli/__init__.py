"""The `rollbook` command: it reads arguments and prints results. The work itself is done by the other packages.

What all commands share is in `terminal`; each group of commands is a module here, and each feature has its own.
"""

import gc

gc.set_threshold(100_000)  # imports leave no garbage: looking for it took a sixth of the start-up time

from rollbook.cli import data, run, serve  # noqa: E402, F401 - this registers them
from rollbook.feature import present  # noqa: E402
from rollbook.terminal import Panel, app, main  # noqa: E402

__all__ = ["app", "main"]

for feature in present():
    feature.commands()

# `rollbook --help` shows the panels in their order, and each panel's commands as they were registered.
app.registered_commands.sort(key=lambda command: list(Panel).index(Panel(str(command.rich_help_panel))))
