"""What readers share.

query.py     runs one query that only reads, on a published file
formats.py   files for answers: CSV, Excel (`excel.py`), Parquet
access.py    the access log: who read pupils' records, when, and of how many students
charts.py    the layout of charts on pages
"""
