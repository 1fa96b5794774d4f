"""Everything that Dagster sees, assembled. Nothing else belongs here."""

import dagster as dg

from pipelines import checks
from pipelines.assets import graph
from pipelines.resources import Options, Writer
from pipelines.schedules import nightly, nightly_sync, watch

defs = dg.Definitions(
    assets=[graph(checks)],
    jobs=[nightly_sync],
    schedules=[nightly],
    sensors=[watch],
    resources={"options": Options(), "writer": Writer()},
    executor=dg.in_process_executor,
)
