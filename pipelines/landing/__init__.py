"""What was received, at rest in `raw/` (G4), and the values that describe it.

    manifest.py   the values: manifest, walk, proof, absence, verdict. Every stage may import these
    bodies.py     one landing's folder: bodies, compressed one by one, and their index
    erased.py     who was erased, without their names, and the gate that leaves them out of every later landing
    rewriting.py  takes an erased student out of what was landed before
    raw.py        all landings: start, read, record the verdict, discard, expire

Fetching belongs to `source`, deciding on a verdict to `sync.policy`.
"""
