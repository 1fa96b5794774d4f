-- Explore: the landed days of all institutions, the newest first, and how many institutions there are.
SELECT
    (SELECT CONCAT(COUNT(*), CASE WHEN COUNT(*) = 1 THEN ' institution' ELSE ' institutions' END) FROM main.institutions)
        AS school,
    (SELECT LIST(DISTINCT snapshot_date ORDER BY snapshot_date DESC) FROM spans.days) AS days
