-- What an institution's pseudonymous file is made from, and which school it is.
SELECT
    r.version, r.published_at, r.newest_day,
    (SELECT MAX(school_id) FROM main.institution),
    (SELECT MAX(school_name) FROM main.institution)
FROM ops.release AS r
