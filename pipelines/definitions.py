"""Assembles everything that Dagster loads. Nothing else belongs here."""

import os

import dagster as dg

from pipelines import checks, files
from pipelines.assets import graph
from pipelines.resources import Options, Writer
from pipelines.schedules import nightly_sync, schedules, watch

files.keep_private(os.environ.get("DAGSTER_HOME"))  # Dagster's own commands load this module and set no umask

defs = dg.Definitions(
    assets=[graph(checks)],
    jobs=[nightly_sync],
    schedules=schedules(),
    sensors=[watch],
    resources={"options": Options(), "writer": Writer()},
    executor=dg.in_process_executor,
)
