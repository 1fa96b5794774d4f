-- Explore: who is newly to watch on a day, or no longer, and why, the most severe first.
SELECT student_id, name, CASE WHEN $newly THEN reason ELSE reason_before END AS why, COUNT(*) OVER () AS total
FROM main.watch_daily
WHERE snapshot_date = CAST($day AS DATE)
    AND change = CASE WHEN $newly THEN 'newly to watch' ELSE 'no longer to watch' END
    AND ($text = '' OR CONTAINS(LOWER(name), LOWER($text)) OR CONTAINS(LOWER(why), LOWER($text)))
ORDER BY COALESCE(severity, severity_before) DESC, name, student_id LIMIT $most OFFSET $skip
