"""Answers to an operator's questions about a warehouse. They only read; each feature adds its own lines.

status.py         what was synced last, whether it is fresh, how much disk it uses, a sync and a year need
data_quality.py   where the source contradicts itself
doctor.py         whether a sync could run
finding.py        a line about how something is doing
"""
