"""Listeners that make something of a night: the morning page, alerts, the copy in an object store."""
