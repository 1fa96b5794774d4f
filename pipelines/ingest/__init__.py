"""Takes bodies as they come from the service: files them in `raw/`, flattens and stages them, all at once.

    ingest.py     what is done with each body, in whichever process
    process.py    the same in a second process, while the next page is on its way
    intake.py     what a fetch hands its bodies to; decides which of the two it is

What is staged here is only a head start. Nothing made of it counts before the bodies are durable and the landing has
its verdict. Where nothing is staged, the landing is flattened from `raw/`.
"""

from pipelines.ingest.ingest import Flattened, StagedPart, stage
from pipelines.ingest.intake import Intake

__all__ = ["Flattened", "Intake", "StagedPart", "stage"]
