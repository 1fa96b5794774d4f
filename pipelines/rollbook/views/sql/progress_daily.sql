-- progress_daily: One row per landed day: the whole institution on that day, from history.
-- key: snapshot_date
--
-- A running sum: versions with the same start and end are aggregated first, added on their first day and subtracted on
-- the day they end, so the cost grows with the changes, not with days times students. Sums are DECIMAL, so that their
-- order does not matter.
--
--   snapshot_date            The day of the snapshot.
--   students                 Students listed.
--   students_added           Students who were new or back on that day; NULL on the first landed day.
--   students_removed         Students no longer listed since that day; NULL on the first landed day.
--   average_completion_rate  The average completion_rate over the students with assignments, percent.
--   low_completion_students  Students under the current completion_below threshold, with low_completion_assignments.
--   average_score            The average average_score over the students who have one.
--   scored_students          Students who have a score.
--   active_students          Students whose last activity was on that day or within the seven days before.
--   active_percent           The same as a share of the students listed, percent; NULL where no activity is known.
--   never_logged_in_students  Students who had never logged in.
--   total_time_minutes       Learning time of all students listed, since they began, in minutes.
{% macro limit(name) -%}
(SELECT value FROM main.thresholds WHERE name = '{{ name }}')
{%- endmacro %}
-- A student stays active for seven days after the last activity, or until the version ends.
WITH by_summary AS MATERIALIZED (
    SELECT student_id, valid_from AS since, LEAST(valid_to, last_activity_date + {{ active_days + 1 }}) AS until
    FROM history.student_summaries WHERE last_activity_date + {{ active_days + 1 }} > valid_from
),
by_activity AS MATERIALIZED (
    SELECT student_id, valid_from AS since, LEAST(valid_to, last_activity_date + {{ active_days + 1 }}) AS until
    FROM history.student_activity WHERE last_activity_date + {{ active_days + 1 }} > valid_from
),
-- For most students, activity tracking adds nothing to the summary. For the others the later last day counts, so their
-- periods are merged.
differing AS MATERIALIZED (
    SELECT DISTINCT student_id FROM by_activity ANTI JOIN by_summary USING (student_id, since, until)
),
ends AS (
    SELECT student_id, day, SUM(n) AS n
    FROM (
        SELECT student_id, UNNEST([since, until]) AS day, UNNEST([1, -1]) AS n
        FROM (
            SELECT * FROM by_summary SEMI JOIN differing USING (student_id)
            UNION
            SELECT * FROM by_activity SEMI JOIN differing USING (student_id)
        )
    )
    GROUP BY student_id, day
),
turns AS (
    SELECT day, n, SUM(n) OVER (PARTITION BY student_id ORDER BY day) AS now
    FROM ends WHERE n <> 0
),
summed AS (
    SELECT valid_from AS since, valid_to AS until, COUNT(*) AS students FROM history.students GROUP BY ALL
    UNION ALL BY NAME
    SELECT
        valid_from AS since, valid_to AS until,
        COUNT(completion) AS with_completion,
        SUM(CAST(completion AS DECIMAL(18, 6))) AS completion,
        COUNT(*) FILTER (
            completion < {{ limit("completion_below") }}
            AND total_assignments >= {{ limit("low_completion_assignments") }}
        ) AS low,
        COUNT(average_score) AS scored,
        SUM(CAST(average_score AS DECIMAL(18, 6))) AS score,
        SUM(CAST(total_time_minutes AS DECIMAL(18, 6))) AS minutes,
        COUNT(last_activity_date) AS known
    FROM (SELECT *, {{ metric.completion }} AS completion FROM history.student_summaries)
    GROUP BY ALL
    UNION ALL BY NAME
    SELECT since, until, COUNT(*) AS active FROM by_summary ANTI JOIN differing USING (student_id) GROUP BY ALL
    UNION ALL BY NAME
    SELECT
        valid_from AS since, valid_to AS until,
        COUNT(*) FILTER ({{ metric.never_logged_in }}) AS never,
        COUNT(*) FILTER ({{ metric.never_logged_in }} OR last_activity_date IS NOT NULL) AS known
    FROM history.student_activity GROUP BY ALL
),
steps AS (
    SELECT * EXCLUDE (since, until), UNNEST([since, until]) AS day, UNNEST([1, -1]) AS n FROM summed
    UNION ALL BY NAME
    SELECT day, CASE WHEN now = 0 THEN -1 ELSE 1 END AS n, 1 AS active FROM turns WHERE now = 0 OR now = n
),
per_day AS (
    SELECT
        day,
        SUM(n * students) AS students,
        SUM(n * with_completion) AS with_completion,
        SUM(n * completion) AS completion,
        SUM(n * low) AS low,
        SUM(n * scored) AS scored,
        SUM(n * score) AS score,
        SUM(n * minutes) AS minutes,
        SUM(n * active) AS active,
        SUM(n * never) AS never,
        SUM(n * known) AS known
    FROM steps WHERE day IS NOT NULL GROUP BY day
),
totals AS (
    SELECT
        d.snapshot_date,
        SUM(p.students) AS students,
        SUM(p.with_completion) AS with_completion,
        SUM(p.completion) AS completion,
        SUM(p.low) AS low,
        SUM(p.scored) AS scored,
        SUM(p.score) AS score,
        SUM(p.minutes) AS minutes,
        SUM(p.active) AS active,
        SUM(p.never) AS never,
        SUM(p.known) AS known
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
    CASE
        WHEN t.known > 0
        THEN ROUND(100.0 * CAST(COALESCE(t.active, 0) AS DOUBLE) / NULLIF(CAST(t.students AS DOUBLE), 0), 2)
    END AS active_percent,
    CAST(COALESCE(t.never, 0) AS BIGINT) AS never_logged_in_students,
    CAST(COALESCE(t.minutes, 0) AS DOUBLE) AS total_time_minutes
FROM totals AS t
CROSS JOIN (SELECT MIN(snapshot_date) AS first_day FROM spans.days) AS f
LEFT JOIN moved AS m USING (snapshot_date)
ORDER BY t.snapshot_date
