-- progress_weekly: One row per ISO week with a landed day: the institution on its last one, and the change in a week.
-- key: week_begins
--
-- The institution's averages also move when students come and go, so changes are those of the same students: those
-- listed on the last landed day of the week before and on this one. NULL if nothing was landed in the week before. Those
-- whose assignments are counted again since then (see student_weekly) count in same_students and same_minutes_change only.
--
--   week_begins               The Monday of the week.
--   snapshot_date             The last landed day of the week, whose state this is.
--   landed_days               How many days of the week were landed.
--   students                  Students listed.
--   average_completion_rate   The average completion_rate over the students with assignments, percent.
--   average_score             The average average_score over the students who have one.
--   active_students           Students whose last activity was on that day or within the seven days before.
--   active_percent            The same as a share of the students listed, percent; NULL where no activity is known.
--   same_students             Students listed then and now, with or without a summary.
--   same_completion_change    Their average gain in completion, in points, of those with assignments then and now.
--   same_score_change         Their average gain in average score, in points, of those with a score then and now.
--   same_minutes_change       Their average learning time since, in minutes, without those whose minutes began again.
{% import "_weeks.sql" as week with context %}
WITH weeks AS (
    {{ week.landed() }}
),
-- Students listed in a week and in the week before: from the second week of an unbroken time on.
present AS (
    SELECT
        student_id,
        CAST(DATE_TRUNC('week', valid_from) AS DATE) AS since,
        CAST(COALESCE(DATE_TRUNC('week', valid_to), DATE 'infinity') AS DATE) AS until
    FROM history.students
    WHERE valid_to IS NULL OR DATE_TRUNC('week', valid_from) < DATE_TRUNC('week', valid_to)
),
recurring AS (
    SELECT CASE WHEN LAG(until) OVER w = since THEN since ELSE since + 7 END AS since, until
    FROM present
    WINDOW w AS (PARTITION BY student_id ORDER BY since)
),
both_weeks AS (
    SELECT w.week_begins, SUM(s.n * s.students) AS students
    FROM weeks AS w INNER JOIN (
        SELECT UNNEST([since, until]) AS day, UNNEST([1, -1]) AS n, students
        FROM (SELECT since, until, COUNT(*) AS students FROM recurring WHERE since < until GROUP BY since, until)
    ) AS s ON s.day <= w.week_begins
    GROUP BY w.week_begins
),
-- Versions begin and end on landed days, so the last landed day of a week shows the versions that begin in the week or
-- before, and end after it. A version is shown in the weeks from `since` (inclusive) to `until` (exclusive).
shown AS (
    SELECT
        student_id,
        CAST(DATE_TRUNC('week', valid_from) AS DATE) AS since,
        CAST(COALESCE(DATE_TRUNC('week', valid_to), DATE 'infinity') AS DATE) AS until,
        total_assignments,
        {{ metric.completion }} AS completion,
        average_score,
        total_time_minutes
    FROM history.student_summaries
    WHERE valid_to IS NULL OR DATE_TRUNC('week', valid_from) < DATE_TRUNC('week', valid_to)
),
-- Two adjacent versions of a student: the second one is new in the week of `since`.
met AS (
    SELECT
        since AS week_begins,
        COALESCE(total_assignments >= LAG(total_assignments) OVER w, TRUE) AS is_of_same_count,
        CASE WHEN is_of_same_count THEN completion - LAG(completion) OVER w END AS completion,
        CASE WHEN is_of_same_count THEN average_score - LAG(average_score) OVER w END AS score,
        CASE
            WHEN total_time_minutes >= LAG(total_time_minutes) OVER w
            THEN total_time_minutes - LAG(total_time_minutes) OVER w
        END AS minutes
    FROM shown
    WINDOW w AS (PARTITION BY student_id ORDER BY since)
    QUALIFY LAG(until) OVER w = since
),
moved AS (
    SELECT
        week_begins,
        COUNT(completion) AS completions,
        SUM(CAST(completion AS DECIMAL(18, 6))) AS completion,
        COUNT(score) AS scores,
        SUM(CAST(score AS DECIMAL(18, 6))) AS score,
        COUNT(minutes) AS times,
        SUM(CAST(minutes AS DECIMAL(18, 6))) AS minutes
    FROM met GROUP BY week_begins
),
-- Students with the same version in a week and the week before: their change is zero.
unmoved AS (
    SELECT UNNEST([since + 7, until]) AS week_begins, UNNEST([1, -1]) AS n, completions, scores, times
    FROM (
        SELECT
            since, until, COUNT(completion) AS completions, COUNT(average_score) AS scores,
            COUNT(total_time_minutes) AS times
        FROM shown WHERE until > since + 7 GROUP BY since, until
    )
),
stayed AS (
    SELECT
        w.week_begins,
        SUM(u.n * u.completions) AS completions,
        SUM(u.n * u.scores) AS scores,
        SUM(u.n * u.times) AS times
    FROM weeks AS w INNER JOIN unmoved AS u ON u.week_begins <= w.week_begins
    GROUP BY w.week_begins
),
-- Only weeks whose week before was landed.
same AS (
    SELECT
        w.week_begins,
        COALESCE(b.students, 0) AS students,
        COALESCE(m.completion, 0)
        / NULLIF(CAST(COALESCE(s.completions, 0) + COALESCE(m.completions, 0) AS DOUBLE), 0) AS completion,
        COALESCE(m.score, 0) / NULLIF(CAST(COALESCE(s.scores, 0) + COALESCE(m.scores, 0) AS DOUBLE), 0) AS score,
        COALESCE(m.minutes, 0) / NULLIF(CAST(COALESCE(s.times, 0) + COALESCE(m.times, 0) AS DOUBLE), 0) AS minutes
    FROM weeks AS w SEMI JOIN weeks AS e ON e.week_begins = w.week_begins - 7
    LEFT JOIN both_weeks AS b ON b.week_begins = w.week_begins
    LEFT JOIN moved AS m ON m.week_begins = w.week_begins
    LEFT JOIN stayed AS s ON s.week_begins = w.week_begins
)
SELECT
    w.week_begins,
    w.snapshot_date,
    w.landed_days,
    p.students,
    p.average_completion_rate,
    p.average_score,
    p.active_students,
    p.active_percent,
    CAST(s.students AS BIGINT) AS same_students,
    {{ m.difference("s.completion") }} AS same_completion_change,
    {{ m.difference("s.score") }} AS same_score_change,
    {{ m.difference("s.minutes") }} AS same_minutes_change
FROM weeks AS w
INNER JOIN main.progress_daily AS p ON p.snapshot_date = w.snapshot_date
LEFT JOIN same AS s ON s.week_begins = w.week_begins
ORDER BY w.week_begins
