"""The copy of a warehouse in an object store (ROLLBOOK_LAKE): S3 or a compatible store, or a folder elsewhere.

    bucket.py     the object store: put, get, list, delete; translates errors
    mirror.py     updates the copy, and restores a warehouse from it

It is never the only copy, and nothing waits for it: a failure is logged as a warning, and the next writer retries.
"""
