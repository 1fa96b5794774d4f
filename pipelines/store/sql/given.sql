-- The source of an institution's parts: the version of its published file, and the school.
SELECT
    v.id, v.published_at,
    (SELECT MAX(snapshot_date) FROM spans.days),
    (SELECT MAX(school_id) FROM main.institution),
    (SELECT MAX(school_name) FROM main.institution)
FROM spans.version AS v
