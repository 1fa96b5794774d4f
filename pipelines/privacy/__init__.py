"""Pupils' rights: what a data-protection officer asks of the warehouse.

Who read what:

    access.py       the access log: who looked, when, at how many students
    queries.py      a query without its values, for that log
"""
