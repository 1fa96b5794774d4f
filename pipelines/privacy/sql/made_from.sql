-- A pseudonymous file's origin: the published version, its time and last day, and the release of codes.
SELECT version, published_at, newest_day, release, began_at FROM ops.release
