"""Pupils' rights: who may see whom, in what form, and how somebody is taken out again.

aggregates.py    numbers that may leave the building, week by week
cohorts.py       whose figures a group's are, and which groups may be shown beside each other
suppression.py   what can be computed from published sums: the linear algebra, and the rules that stand on it
releases.py      what was released, at rest: a released week stays as it is
handout.py       the folder that is given away: CSV, Parquet and their README.txt
"""
