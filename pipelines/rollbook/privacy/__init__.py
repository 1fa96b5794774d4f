"""Pupils' rights: what a data-protection officer asks of the warehouse.

access.py        the access log: who read pupils' records, when, and of how many students
subject.py       a subject access request: all that is held about one student
erasure.py       removes one student from everything, with a journal that names nobody
pseudonymous.py  rollbook-pseudonymous.duckdb: the published file without names, and the random code of each student
processing.py    the record of processing, from the declarations and the settings; `processing.md` is its template
"""
