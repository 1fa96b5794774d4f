"""The only code that speaks HTTP: the client, the walk and its proof, the verified absence, the raw landing.

    deadline    how long one exchange may last
    client      one GET at a time, with the key, the timeouts and the retries
    patience    which faults are retried, and how long each is waited for
    envelope    the contract's JSON around the records: pages, the auth check, refusals
    pages       the walk over a set, and what it proves
    absence     asking for the records that a proven walk no longer shows
    bodies      one landing's folder: its bodies, written and read back
    raw         all landings and their manifests
    fetch       the land stage as one plain call

Turning bodies into rows does not belong here.
"""
