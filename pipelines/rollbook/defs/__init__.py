"""Dagster: the assets, their checks, the days, jobs, schedules, sensors and resources of a school; or of a district.

Plain classes and functions below do the work. `component.load` builds everything from the settings when Dagster loads
the code. A run reads the settings again.
"""
