"""History as a function of the landed days (G7)."""

from pipelines.store.history.engine import Computed, History

__all__ = ["Computed", "History"]
