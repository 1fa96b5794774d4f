-- What an institution's parts are made from: the version of its published file, and which school it is.
SELECT
    v.id, v.published_at,
    (SELECT MAX(snapshot_date) FROM spans.days),
    (SELECT MAX(school_id) FROM main.institution),
    (SELECT MAX(school_name) FROM main.institution)
FROM spans.version AS v
