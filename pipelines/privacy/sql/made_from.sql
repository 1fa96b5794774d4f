-- What a pseudonymous file says of itself: the version of the published file, when that was made, its last day, the codes.
SELECT version, published_at, newest_day, release, began_at FROM ops.release
