"""Alerts for failed, held, late and long unproven syncs, and for the first good one after.

    alerts.py     which outcomes are reported, the text, the outbox, and its delivery
    channels.py   sends one message to the addresses of ROLLBOOK_NOTIFY

No Dagster here: `schedules` finds the runs to report.
"""
