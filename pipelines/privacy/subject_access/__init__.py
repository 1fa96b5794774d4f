"""A subject access request: all that is held about one student.

subject.py      gathers it, as sections of rows
excerpts.py     the student's own records in the raw landings
copies.py       known copies of the student's records
bundle.py       the ZIP file to hand over; `subject.html` is its page
"""
