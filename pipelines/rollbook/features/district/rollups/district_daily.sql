-- district_daily: One row per day on which any institution was landed: the state of all institutions together on that day.
-- key: snapshot_date
--
-- An institution that was not landed on the day counts with its last landed day before; one that began later does not
-- count yet. A student of two institutions counts twice.
--
--   snapshot_date             The day.
--   institutions              Institutions landed on or before that day.
--   landed_institutions       Institutions landed on that day itself.
--   oldest_day                The oldest landed day that an institution counts with.
--   students                  Students listed, each once per institution.
--   classes                   Classes listed, active or not.
--   active_classes            Active classes.
--   average_completion_rate   The average completion_rate over all students with assignments, percent.
--   average_score             The average average_score over all students who have one.
--   never_logged_in_students  Students who had never logged in.
WITH days AS (SELECT DISTINCT snapshot_date FROM main.institutions_daily),
names AS (SELECT DISTINCT institution FROM main.institutions_daily),
numbered AS (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY institution ORDER BY snapshot_date) AS number
    FROM main.institutions_daily
),
-- The number of landed days of each institution up to each day.
grid AS (
    SELECT
        d.snapshot_date, i.institution,
        COUNT(x.snapshot_date) OVER (
            PARTITION BY i.institution ORDER BY d.snapshot_date ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS number
    FROM days AS d CROSS JOIN names AS i
    LEFT JOIN numbered AS x ON x.institution = i.institution AND x.snapshot_date = d.snapshot_date
)
SELECT
    g.snapshot_date,
    COUNT(*) AS institutions,
    CAST(SUM(CASE WHEN n.snapshot_date = g.snapshot_date THEN 1 ELSE 0 END) AS BIGINT) AS landed_institutions,
    MIN(n.snapshot_date) AS oldest_day,
    CAST(SUM(n.students) AS BIGINT) AS students,
    CAST(SUM(n.classes) AS BIGINT) AS classes,
    CAST(SUM(n.active_classes) AS BIGINT) AS active_classes,
    {{ m.rounded(
        "CAST(SUM(n.completion_points) AS DOUBLE) / NULLIF(CAST(SUM(n.assigned_students) AS DOUBLE), 0)"
    ) }} AS average_completion_rate,
    {{ m.rounded(
        "CAST(SUM(n.score_points) AS DOUBLE) / NULLIF(CAST(SUM(n.scored_students) AS DOUBLE), 0)"
    ) }} AS average_score,
    CAST(SUM(n.never_logged_in_students) AS BIGINT) AS never_logged_in_students
FROM grid AS g INNER JOIN numbered AS n ON n.institution = g.institution AND n.number = g.number
GROUP BY g.snapshot_date
ORDER BY g.snapshot_date
