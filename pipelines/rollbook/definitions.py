"""Loads everything that Dagster shows and runs: `workspace.yaml` names this module. It is built in `defs`."""

import os

from rollbook.defs.component import load
from rollbook.util import files

files.keep_private(os.environ.get("DAGSTER_HOME"))  # Dagster's own commands load this module and set no umask
defs = load()
