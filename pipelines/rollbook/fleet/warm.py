"""Imported by the fork server, so that imports, templates and settings are ready in every worker.

Nothing else imports this. It opens no database and no connection: a fork would share them.
"""

from __future__ import annotations

import atexit
import gc
from contextlib import suppress

from rollbook import settings
from rollbook.errors import SettingError
from rollbook.flatten.rows import load
from rollbook.fleet import nights as nights
from rollbook.outputs.report import morning as morning
from rollbook.store.statements import environment
from rollbook.views import catalog

# The statements that a night renders; compiling them takes a third of a second.
for _place in (
    ("rollbook.store", "sql"),
    ("rollbook.store.history", "sql"),
    ("rollbook.views", "sql"),
    ("rollbook.views", "macros"),
    ("rollbook.outputs.report", "sql"),
):
    _made = environment(*_place)
    for _name in _made.list_templates():
        _made.get_template(_name)
catalog.views()
load()
with suppress(SettingError):  # reported where the registry is needed
    settings.registry()
atexit.register(gc.unfreeze)  # else DuckDB complains about leftover objects at exit
gc.collect()
gc.freeze()  # a collection would write to the shared pages, and so copy them
