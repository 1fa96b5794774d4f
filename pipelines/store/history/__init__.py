"""History as a function of the landed days (G7)."""

from pipelines.store.history.engine import History
from pipelines.store.history.table import Computed

__all__ = ["Computed", "History"]
