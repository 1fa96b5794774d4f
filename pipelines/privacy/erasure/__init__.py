"""Erases one student.

erasure.py      removes the student from everything, with a journal that names nobody
holders.py      removes the student from the codes and the fleet's files
dagster_home.py removes students' ids from Dagster's records
certificate.py  the certificate of an erasure
"""
