-- active_days: one row per day since the first landed one on which a student was last active.
-- Of a student, one version begins on a day: counting versions counts students.
WITH seen AS (
    SELECT 'activity' AS source, valid_from, last_activity_date AS day, COUNT(*) AS active
    FROM history.student_activity WHERE last_activity_date <= valid_from GROUP BY ALL
    UNION ALL
    SELECT 'summary', valid_from, last_activity_date, COUNT(*)
    FROM history.student_summaries WHERE last_activity_date <= valid_from GROUP BY ALL
),
steps AS (
    SELECT valid_from AS day, 1 AS step FROM history.students
    UNION ALL
    SELECT valid_to, -1 FROM history.students WHERE valid_to IS NOT NULL
),
listed AS (SELECT day AS since, SUM(SUM(step)) OVER (ORDER BY day) AS listed FROM steps GROUP BY day),
compared AS (SELECT s.*, l.listed FROM seen AS s ASOF INNER JOIN listed AS l ON l.since <= s.valid_from)
SELECT day, MAX(active) AS active, CAST(ARG_MAX(listed, active) AS BIGINT) AS listed
FROM compared
WHERE day >= (SELECT MIN(snapshot_date) FROM spans.days)
GROUP BY day
