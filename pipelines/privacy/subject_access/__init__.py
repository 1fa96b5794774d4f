"""A subject access request: all that is held about one student.

subject.py   gathers it, as sections of rows, and writes the ZIP file to hand over; `subject.html` is its page
excerpts.py  the student's own records in the raw landings
"""
