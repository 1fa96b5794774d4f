"""History as a function of the landed days (G7)."""
