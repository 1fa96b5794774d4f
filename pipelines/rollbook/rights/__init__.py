"""Pupils' rights: what a data-protection officer asks of the warehouse.

subject.py      a subject access request: all that is held about one student
erasure.py      removes one student from everything, with a journal that names nobody
personal.py     what a feature holds of people
processing.py   the record of processing, from the declarations and the settings; `processing.md` is its template
"""
