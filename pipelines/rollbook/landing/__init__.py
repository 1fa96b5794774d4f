"""Received data at rest in `raw/` (G4), and the values that describe it.

    manifest.py  the values: manifest, walk, proof, absence, verdict. Every stage may import these
    bodies.py    one landing's folder: bodies, compressed one by one, and their index
    erased.py    the erased students, without their names, and the gate that keeps them out of every landing
    raw.py       all landings: start, read, record the verdict, discard, expire

Fetching belongs to `source`, deciding on a verdict to `night.policy`.
"""
