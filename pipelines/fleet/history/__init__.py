"""The histories of all institutions again, from their lakes, by an engine.

lakes.py      the institutions' lakes as one, or their copies in an object store, for an engine
histories.py  the histories of all of them, computed from that, and compared with what is published
rebuild.py    publishes them, or says where they differ
"""
