"""The database files that readers open: their versions, whether somebody changed them, and copies without remains."""
