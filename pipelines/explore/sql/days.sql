-- Explore: the landed days, the newest first, and the institution's name.
SELECT
    (SELECT ANY_VALUE(school_name) FROM main.institution) AS school,
    (SELECT LIST(snapshot_date ORDER BY snapshot_date DESC) FROM spans.days) AS days
