"""One sync, backfill or rebuild as plain calls: the only code that joins the stages. No Dagster, no SQL, no HTTP.

`rollbook` is a night's:

    land        fetch everything once; raw bodies and their manifest (source)
    snapshot    flatten the landing, compose its day, decide on it (`policy`), move it into the lake (`landings`)
    merge       bring the history up to the lake, in the next file (store)
    publish     check the next file and swap it in, expire old days (`recovery`); then tell what listens (`listeners`)

Each stage leaves its result on disk, so that the next run resumes after a killed one: before any decision, `recovery`
brings the lake and the published file to the state that all counted landings imply. All of it happens under the writer
lock; what several places say about a landing is in `policy`. What operators do outside a night is in `approvals` and
`past`, as functions over the same stages; `rollbook` imports neither. `assembly` adds the listeners.
"""
