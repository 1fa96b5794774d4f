"""Reads the records service over HTTP: the client, the walk and its proof, the absence check.

    client       one GET at a time, with the key, the timeouts and the retries
    envelope     the contract's JSON around the records: pages, the auth check, error bodies
    pagination   walks over a set, their proof, and searches for the records that a proven walk no longer shows
    fetch        the land stage as one function

Turning bodies into rows belongs to `flatten`, storing them to `landing`.
"""
