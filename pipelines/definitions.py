"""Assembles everything that Dagster loads. Nothing else belongs here."""

import os

import dagster as dg

from pipelines import files
from pipelines.assets import sync
from pipelines.schedules import nightly_sync, schedules, watch

files.keep_private(os.environ.get("DAGSTER_HOME"))  # Dagster's own commands load this module and set no umask

defs = dg.Definitions(
    assets=[sync],
    jobs=[nightly_sync],
    schedules=schedules(),
    sensors=[watch],
    executor=dg.in_process_executor,
)
