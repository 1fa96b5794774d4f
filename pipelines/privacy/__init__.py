"""Pupils' rights: who may see whom, in what form, and how somebody is taken out again.

codes.py         the random codes that stand for students, and who is behind one: the owner's alone
pseudonymous.py  rollbook-pseudonymous.duckdb: what is published, without names
"""
