-- Explore: how many students a reader sees, and how many of them are to watch, newly and no longer, and rest.
SELECT
    (SELECT COUNT(*) FROM main.students) AS students,
    COUNT(severity) AS watched,
    COUNT(*) FILTER (change = 'newly to watch') AS new,
    COUNT(*) FILTER (change = 'no longer to watch') AS gone,
    COUNT(severity) FILTER (until IS NOT NULL) AS resting
FROM watching LEFT JOIN resting USING (student_id)
