"""Reads the records service over HTTP: the client, the walk and its proof, the absence check.

    deadline     how long one exchange may last
    client       one GET at a time, with the key, the timeouts and the retries
    retry        which faults are retried, and how long to wait between tries
    envelope     the contract's JSON around the records: pages, the auth check, error bodies
    pagination   walks over a set, and their proof
    absence      searches for the records that a proven walk no longer shows
    fetch        the land stage as one function

Turning bodies into rows belongs to `flatten`, storing them to `landing`.
"""
