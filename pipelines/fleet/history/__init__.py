"""Recomputes the histories of all institutions from their lakes, with an engine.

lakes.py      the institutions' lakes, or their copies in an object store, as one lake for an engine
histories.py  computes the histories from it, and compares them with the published ones
rebuild.py    publishes them, or reports the differences
"""
