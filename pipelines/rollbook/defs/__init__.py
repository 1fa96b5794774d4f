"""Dagster: the assets, their checks, the days, the schedules and the sensors; a district's runs in `district`.

Plain classes and functions below do the work. `rollbook.definitions` builds everything from the settings, once, when
Dagster loads it; what a run needs besides is read when the run starts.
"""
