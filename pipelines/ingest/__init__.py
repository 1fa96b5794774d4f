"""Writes each body to `raw/` as it arrives from the service, and flattens and stages its rows at the same time.

    ingest.py     processes each body, in either process
    process.py    the same in a second process, while the next page is fetched
    intake.py     receives a fetch's bodies and picks one of the two

Staging is only a head start: staged rows do not count until the bodies are durable and the landing has its verdict.
Without staged rows, the landing is flattened from `raw/`.
"""

from pipelines.ingest.ingest import Flattened, StagedPart, stage
from pipelines.ingest.intake import Intake

__all__ = ["Flattened", "Intake", "StagedPart", "stage"]
