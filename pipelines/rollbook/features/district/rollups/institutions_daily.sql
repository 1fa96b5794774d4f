-- institutions_daily: One row per institution and landed day: how many students and classes, and how they were doing.
-- key: institution, snapshot_date
--
-- Columns that progress_daily also has mean the same here. For an average over several institutions, divide the sum of
-- completion_points or score_points by the sum of assigned_students or scored_students.
--
--   institution               Which institution, by its name in institutions.toml.
--   snapshot_date             The landed day.
--   students                  Students listed, each once.
--   students_added            Students who were new or back on that day; NULL on the institution's first landed day.
--   students_removed          Students no longer listed since that day; NULL on the institution's first landed day.
--   classes                   Classes listed, active or not.
--   active_classes            Active classes.
--   assigned_students         Students with assignments, who have a completion.
--   completion_points         The sum of their completion, in percent.
--   average_completion_rate   The average completion_rate over the students with assignments, percent.
--   scored_students           Students who have a score.
--   score_points              The sum of their average scores.
--   average_score             The average average_score over the students who have one.
--   never_logged_in_students  Students who had never logged in.
--   changed_fields            Fields that changed on that day, over all records.
-- A running sum: each version is added on its first day and subtracted on the day it ends; both are landed days.
WITH amounts AS (
    SELECT institution, valid_from, valid_to, 'students' AS measure, CAST(1 AS DECIMAL(18, 6)) AS amount
    FROM history.students
    UNION ALL
    SELECT institution, valid_from, valid_to, 'classes', CAST(1 AS DECIMAL(18, 6)) FROM history.classes
    UNION ALL
    SELECT institution, valid_from, valid_to, 'active classes', CAST(1 AS DECIMAL(18, 6))
    FROM history.classes WHERE class_status = 1
    UNION ALL
    SELECT institution, valid_from, valid_to, 'assigned', CAST(1 AS DECIMAL(18, 6))
    FROM history.student_summaries WHERE total_assignments > 0 AND completion_rate IS NOT NULL
    UNION ALL
    SELECT institution, valid_from, valid_to, 'completion', CAST(completion_rate AS DECIMAL(18, 6))
    FROM history.student_summaries WHERE total_assignments > 0 AND completion_rate IS NOT NULL
    UNION ALL
    SELECT institution, valid_from, valid_to, 'scored', CAST(1 AS DECIMAL(18, 6))
    FROM history.student_summaries WHERE average_score IS NOT NULL
    UNION ALL
    SELECT institution, valid_from, valid_to, 'score', CAST(average_score AS DECIMAL(18, 6))
    FROM history.student_summaries WHERE average_score IS NOT NULL
    UNION ALL
    SELECT institution, valid_from, valid_to, 'never', CAST(1 AS DECIMAL(18, 6))
    FROM history.student_activity WHERE has_ever_logged_in = FALSE
),
steps AS (
    SELECT institution, measure, valid_from AS day, SUM(amount) AS amount
    FROM amounts GROUP BY institution, measure, valid_from
    UNION ALL
    SELECT institution, measure, valid_to AS day, -SUM(amount) AS amount
    FROM amounts WHERE valid_to IS NOT NULL GROUP BY institution, measure, valid_to
),
per_day AS (
    SELECT
        institution, day,
        SUM(CASE WHEN measure = 'students' THEN amount ELSE 0 END) AS students,
        SUM(CASE WHEN measure = 'classes' THEN amount ELSE 0 END) AS classes,
        SUM(CASE WHEN measure = 'active classes' THEN amount ELSE 0 END) AS active_classes,
        SUM(CASE WHEN measure = 'assigned' THEN amount ELSE 0 END) AS assigned,
        SUM(CASE WHEN measure = 'completion' THEN amount ELSE 0 END) AS completion,
        SUM(CASE WHEN measure = 'scored' THEN amount ELSE 0 END) AS scored,
        SUM(CASE WHEN measure = 'score' THEN amount ELSE 0 END) AS score,
        SUM(CASE WHEN measure = 'never' THEN amount ELSE 0 END) AS never
    FROM steps GROUP BY institution, day
),
moved AS (
    SELECT
        institution, snapshot_date,
        SUM(CASE WHEN table_name = 'students' AND change IN ('added', 'returned') THEN 1 ELSE 0 END) AS added,
        SUM(CASE WHEN table_name = 'students' AND change = 'removed' THEN 1 ELSE 0 END) AS removed,
        SUM(CASE WHEN change = 'changed' THEN 1 ELSE 0 END) AS changed
    FROM main.changes GROUP BY institution, snapshot_date
),
totals AS (
    SELECT
        d.institution, d.snapshot_date,
        ROW_NUMBER() OVER (PARTITION BY d.institution ORDER BY d.snapshot_date) AS number,
        SUM(COALESCE(p.students, 0)) OVER so_far AS students,
        SUM(COALESCE(p.classes, 0)) OVER so_far AS classes,
        SUM(COALESCE(p.active_classes, 0)) OVER so_far AS active_classes,
        SUM(COALESCE(p.assigned, 0)) OVER so_far AS assigned,
        SUM(COALESCE(p.completion, 0)) OVER so_far AS completion,
        SUM(COALESCE(p.scored, 0)) OVER so_far AS scored,
        SUM(COALESCE(p.score, 0)) OVER so_far AS score,
        SUM(COALESCE(p.never, 0)) OVER so_far AS never
    FROM spans.days AS d
    LEFT JOIN per_day AS p ON p.institution = d.institution AND p.day = d.snapshot_date
    WINDOW so_far AS (
        PARTITION BY d.institution ORDER BY d.snapshot_date ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)
SELECT
    t.institution,
    t.snapshot_date,
    CAST(t.students AS BIGINT) AS students,
    CASE WHEN t.number > 1 THEN CAST(COALESCE(m.added, 0) AS BIGINT) END AS students_added,
    CASE WHEN t.number > 1 THEN CAST(COALESCE(m.removed, 0) AS BIGINT) END AS students_removed,
    CAST(t.classes AS BIGINT) AS classes,
    CAST(t.active_classes AS BIGINT) AS active_classes,
    CAST(t.assigned AS BIGINT) AS assigned_students,
    CAST(t.completion AS DECIMAL(28, 6)) AS completion_points,
    {{ m.rounded("CAST(t.completion AS DOUBLE) / NULLIF(CAST(t.assigned AS DOUBLE), 0)") }} AS average_completion_rate,
    CAST(t.scored AS BIGINT) AS scored_students,
    CAST(t.score AS DECIMAL(28, 6)) AS score_points,
    {{ m.rounded("CAST(t.score AS DOUBLE) / NULLIF(CAST(t.scored AS DOUBLE), 0)") }} AS average_score,
    CAST(t.never AS BIGINT) AS never_logged_in_students,
    CAST(COALESCE(m.changed, 0) AS BIGINT) AS changed_fields
FROM totals AS t
LEFT JOIN moved AS m ON m.institution = t.institution AND m.snapshot_date = t.snapshot_date
ORDER BY t.institution, t.snapshot_date
