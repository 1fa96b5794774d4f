"""Aggregates that may leave the building, with disclosure control (k-anonymity, complementary suppression).

aggregates.py   averages and counts by school, course, class and week
cohorts.py      whose values count in a group's figures, and which groups may be shown together
suppression.py  which sums may be published together, with the proof
span.py         what can be computed from published sums: the linear algebra
releases.py     the released weeks at rest; they never change
handout.py      the folder that is given away: CSV, Parquet and README.txt (`aggregates.txt`)
"""
