-- active_days: one row per day since the first landed one on which a student was last active.
-- Of a student, one version begins on a day: counting versions counts students.
WITH of_nights AS (
    SELECT 'activity' AS source, valid_from AS night, last_activity_date AS day, COUNT(*) AS active
    FROM history.student_activity WHERE last_activity_date <= valid_from GROUP BY ALL
    UNION ALL
    SELECT 'summary', valid_from, last_activity_date, COUNT(*)
    FROM history.student_summaries WHERE last_activity_date <= valid_from GROUP BY ALL
),
landed AS (SELECT snapshot_date AS night, LAG(snapshot_date) OVER (ORDER BY snapshot_date) AS before FROM spans.days),
-- A night shows one last day of a student. Where nights are missing for up to a week, as with a weekly sync, those who
-- were active since the one before count for each weekday of a term; without terms, nobody knows of holidays.
missed AS (
    SELECT o.source, o.night, CAST(d.day AS DATE) AS day, SUM(o.active) AS active
    FROM landed AS l
    INNER JOIN of_nights AS o ON o.night = l.night AND o.day >= l.before
    CROSS JOIN UNNEST(RANGE(l.before, l.night, INTERVAL 1 DAY)) AS d (day)
    INNER JOIN main.terms AS t ON d.day BETWEEN t.first_day AND t.last_day
    WHERE l.night - l.before BETWEEN 3 AND 7 AND ISODOW(d.day) < 6
    GROUP BY ALL
),
steps AS (
    SELECT valid_from AS day, 1 AS step FROM history.students
    UNION ALL
    SELECT valid_to, -1 FROM history.students WHERE valid_to IS NOT NULL
),
listed AS (SELECT day AS since, SUM(SUM(step)) OVER (ORDER BY day) AS listed FROM steps GROUP BY day),
compared AS (
    SELECT s.*, l.listed
    FROM (FROM of_nights UNION ALL FROM missed) AS s ASOF INNER JOIN listed AS l ON l.since <= s.night
)
SELECT day, CAST(MAX(active) AS BIGINT) AS active, CAST(ARG_MAX(listed, active) AS BIGINT) AS listed
FROM compared
WHERE day >= (SELECT MIN(snapshot_date) FROM spans.days)
GROUP BY day
