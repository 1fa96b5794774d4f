"""History as a function of the landed days (G7)."""

from pipelines.store.history.computed import Computed
from pipelines.store.history.delta import Delta
from pipelines.store.history.engine import History
from pipelines.store.history.table import find_delta

__all__ = ["Computed", "Delta", "History", "find_delta"]
