-- The version of an institution's pseudonymous file, and its school.
SELECT
    r.version, r.published_at, r.newest_day,
    (SELECT MAX(school_id) FROM main.institution),
    (SELECT MAX(school_name) FROM main.institution)
FROM ops.release AS r
