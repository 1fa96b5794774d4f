"""Pupils' rights: what a data-protection officer asks of the warehouse.

Who read what:

    access.py       the access log: who looked, when, at how many students
    queries.py      a query without its values, for that log

What is held about one student:

    subject.py      all of it, as sections of rows
    excerpts.py     the student's own records in the raw landings
    copies.py       who got copies, as far as that is known
    traces.py       where the files in `private/` know the student
    bundle.py       the ZIP file to hand over; `subject.html` is its page

One student erased:

    erasure.py      taken out of everything, with a journal that names nobody
    holders.py      the codes, the figures that were given away, and what a fleet has
    exported.py     which exported files hold a student
    dagster_home.py what Dagster's own records hold of students
    certificate.py  what an erasure says it did

Without names:

    codes.py        the random codes that stand for students, and who is behind one: the owner's alone
    pseudonymous.py rollbook-pseudonymous.duckdb: what is published, without names

Figures that may leave the building:

    aggregates.py   averages and counts by school, course, class and week
    cohorts.py      whose figures a group's are, and which groups may be shown beside each other
    suppression.py  which sums may be published beside each other, with the proof
    span.py         what can be computed from published sums: the linear algebra
    releases.py     what was released, at rest: a released week stays as it is
    handout.py      the folder that is given away: CSV, Parquet and their README.txt

What is done with all records:

    processing.py   the record of processing, from the declarations and the settings; `processing.md` has its words
"""
