"""Helpers that know nothing of Rollbook: files, text, cron lines, this machine, pages and their guard."""
