"""The copy of a warehouse in an object store (ROLLBOOK_LAKE): S3 and what speaks like it, or a folder elsewhere.

    bucket.py     the object store: put, get, list, delete, in Rollbook's errors
    catalog.py    what the copy holds: every file with its digest, numbered, and whose it is
    lake.py       the snapshots of a copy, for engines that read them there
    mirror.py     bringing the copy up to the warehouse, and making a warehouse of the copy

It is never the only copy, and nothing waits for it: where it fails, a warning says so and the next writer goes on.
"""

from pipelines.mirror.mirror import Mirror, Report, restore

__all__ = ["Mirror", "Report", "restore"]
