"""Makes each peer's environment under `.venv-peers/`, once, and again when its pins or this Python change."""

from __future__ import annotations

from pathlib import Path

from tests.support.wire import environments
from tests.support.wire.environments import EnvironmentFailedError as EnvironmentFailedError

HERE = Path(__file__).parent
PLACE = HERE.parents[2] / ".venv-peers"


def interpreter(peer: str, place: Path = PLACE) -> Path:
    """Return the Python of a peer's environment, which is made first if need be. Raises EnvironmentFailedError."""
    return environments.interpreter(HERE / f"{peer}.txt", place / peer)
