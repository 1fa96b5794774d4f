"""Alerts: a failed, held or late sync, and the first good one after it.

    alerts.py     what is said, to whom, and what was said before
    channels.py   sending one message: webhook, mail

No Dagster here: `schedules` finds the runs to report.
"""
