"""What was received, at rest in `raw/` (G4), and the values that describe it.

    manifest.py   the values: manifest, walk, proof, absence, verdict. Every stage may import these
    bodies.py     one landing's folder: bodies, packed one by one, and the list of them
    raw.py        all landings: beginning one, reading it, recording its verdict, discarding, expiring

Fetching belongs to `source`; what a verdict is based on, to `sync.policy`.
"""
