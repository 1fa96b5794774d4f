-- Explore: how many students are to be watched on a day and on the one before, by reason.
SELECT
    d.day,
    COUNT(w.student_id),
    COUNT(*) FILTER (w.is_falling),
    COUNT(*) FILTER (w.is_never_logged_in),
    COUNT(*) FILTER (w.is_inactive),
    COUNT(*) FILTER (w.is_low_completion),
    COUNT(*) FILTER (w.is_low_score)
FROM (SELECT UNNEST([CAST($day AS DATE), CAST($before AS DATE)]) AS day) AS d
LEFT JOIN (
    FROM main.watch_daily
    WHERE snapshot_date IN (CAST($day AS DATE), CAST($before AS DATE)) AND change IS DISTINCT FROM 'no longer to watch'
) AS w ON w.snapshot_date = d.day
WHERE d.day IS NOT NULL
GROUP BY d.day
ORDER BY d.day DESC
