"""What the rights of pupils ask for.

erasure.py      one student taken out of everything, with a journal that names nobody
exported.py     which exported files hold a student
dagster_home.py what Dagster's own records hold of students
certificate.py  what an erasure says it did
"""
