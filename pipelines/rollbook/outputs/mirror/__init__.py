"""The copy of a warehouse in an object store (ROLLBOOK_LAKE): S3 or a compatible store, or a folder elsewhere."""
