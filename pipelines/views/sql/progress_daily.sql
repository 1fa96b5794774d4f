-- progress_daily: One row per landed day: the whole institution as it stood on that day, from history.
-- key: snapshot_date
--
-- Each version of a student adds its values on its first day and takes them back on the day it ends, so the cost grows
-- with what changed and not with days times students. Sums are decimal: they come out the same in whatever order.
--
--   snapshot_date            The day of the snapshot.
--   students                 Students listed.
--   students_added           Students who were new or back on that day; NULL on the first landed day.
--   students_removed         Students no longer listed since that day; NULL on the first landed day.
--   average_completion_rate  The average completion_rate over the students with assignments, percent.
--   low_completion_students  Students under the present threshold completion_below, those without assignments left out.
--   average_score            The average average_score over the students who have one.
--   scored_students          Students who have a score.
--   active_students          Students whose last activity was on that day or within the seven days before.
--   active_percent           The same as a share of the students listed, percent.
--   never_logged_in_students  Students who had never logged in.
--   total_time_minutes       Learning time of all students listed, since they began, in minutes.
WITH seen AS (
    -- Activity wears off by itself: it counts until the eighth day after, or until the version ends. Summary and activity
    -- tracking both have a last day; where they differ, the later one counts.
    SELECT student_id, valid_from AS since, LEAST(valid_to, last_activity_date + 8) AS until
    FROM history.student_activity WHERE last_activity_date + 8 > valid_from
    UNION
    SELECT student_id, valid_from, LEAST(valid_to, last_activity_date + 8)
    FROM history.student_summaries WHERE last_activity_date + 8 > valid_from
),
ends AS (
    SELECT student_id, day, SUM(n) AS n
    FROM (SELECT student_id, UNNEST([since, until]) AS day, UNNEST([1, -1]) AS n FROM seen)
    GROUP BY student_id, day
),
turns AS (
    SELECT day, n, SUM(n) OVER (PARTITION BY student_id ORDER BY day) AS now
    FROM ends WHERE n <> 0
),
steps AS (
    SELECT valid_from AS day, 'students' AS what, 1 AS n, CAST(NULL AS DECIMAL(18, 6)) AS amount
    FROM history.students
    UNION ALL
    SELECT valid_to, 'students', -1, NULL FROM history.students WHERE valid_to IS NOT NULL
    UNION ALL
    SELECT UNNEST([valid_from, valid_to]), 'completion', UNNEST([1, -1]), UNNEST([1, -1]) * completion_rate
    FROM history.student_summaries WHERE completion_rate IS NOT NULL AND total_assignments > 0
    UNION ALL
    SELECT UNNEST([valid_from, valid_to]), 'low', UNNEST([1, -1]), NULL
    FROM history.student_summaries
    WHERE total_assignments > 0
        AND completion_rate < (SELECT value FROM main.thresholds WHERE name = 'completion_below')
    UNION ALL
    SELECT UNNEST([valid_from, valid_to]), 'score', UNNEST([1, -1]), UNNEST([1, -1]) * average_score
    FROM history.student_summaries WHERE average_score IS NOT NULL
    UNION ALL
    SELECT UNNEST([valid_from, valid_to]), 'time', UNNEST([1, -1]), UNNEST([1, -1]) * total_time_minutes
    FROM history.student_summaries WHERE total_time_minutes IS NOT NULL
    UNION ALL
    SELECT day, 'active', CASE WHEN now = 0 THEN -1 ELSE 1 END, NULL FROM turns WHERE now = 0 OR now = n
    UNION ALL
    SELECT UNNEST([valid_from, valid_to]), 'never', UNNEST([1, -1]), NULL
    FROM history.student_activity WHERE NOT has_ever_logged_in
),
per_day AS (SELECT day, what, SUM(n) AS n, SUM(amount) AS amount FROM steps WHERE day IS NOT NULL GROUP BY day, what),
totals AS (
    SELECT
        d.snapshot_date,
        SUM(p.n) FILTER (p.what = 'students') AS students,
        SUM(p.n) FILTER (p.what = 'completion') AS with_completion,
        SUM(p.amount) FILTER (p.what = 'completion') AS completion,
        SUM(p.n) FILTER (p.what = 'low') AS low,
        SUM(p.n) FILTER (p.what = 'score') AS scored,
        SUM(p.amount) FILTER (p.what = 'score') AS score,
        SUM(p.amount) FILTER (p.what = 'time') AS minutes,
        SUM(p.n) FILTER (p.what = 'active') AS active,
        SUM(p.n) FILTER (p.what = 'never') AS never
    FROM spans.days AS d LEFT JOIN per_day AS p ON p.day <= d.snapshot_date
    GROUP BY d.snapshot_date
),
moved AS (
    SELECT
        snapshot_date,
        COUNT(*) FILTER (change <> 'removed') AS added,
        COUNT(*) FILTER (change = 'removed') AS removed
    FROM main.changes WHERE table_name = 'students' AND change <> 'changed' GROUP BY snapshot_date
)
SELECT
    t.snapshot_date,
    CAST(COALESCE(t.students, 0) AS BIGINT) AS students,
    CASE WHEN t.snapshot_date > f.first_day THEN COALESCE(m.added, 0) END AS students_added,
    CASE WHEN t.snapshot_date > f.first_day THEN COALESCE(m.removed, 0) END AS students_removed,
    ROUND(CAST(t.completion AS DOUBLE) / NULLIF(CAST(t.with_completion AS DOUBLE), 0), 2) AS average_completion_rate,
    CAST(COALESCE(t.low, 0) AS BIGINT) AS low_completion_students,
    ROUND(CAST(t.score AS DOUBLE) / NULLIF(CAST(t.scored AS DOUBLE), 0), 2) AS average_score,
    CAST(COALESCE(t.scored, 0) AS BIGINT) AS scored_students,
    CAST(COALESCE(t.active, 0) AS BIGINT) AS active_students,
    ROUND(100.0 * CAST(COALESCE(t.active, 0) AS DOUBLE) / NULLIF(CAST(t.students AS DOUBLE), 0), 2) AS active_percent,
    CAST(COALESCE(t.never, 0) AS BIGINT) AS never_logged_in_students,
    CAST(COALESCE(t.minutes, 0) AS DOUBLE) AS total_time_minutes
FROM totals AS t
CROSS JOIN (SELECT MIN(snapshot_date) AS first_day FROM spans.days) AS f
LEFT JOIN moved AS m USING (snapshot_date)
ORDER BY t.snapshot_date
