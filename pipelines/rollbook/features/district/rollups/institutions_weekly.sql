-- institutions_weekly: One row per institution and ISO week with a landed day: its last one, and the change in a week.
-- key: institution, week_begins
--
-- Changes are against the last landed day of the week before; NULL if nothing was landed in that week. The averages
-- also move when students come and go: progress_weekly has the change of the same students.
--
--   institution               Which institution, by its name in institutions.toml.
--   week_begins               The Monday of the week.
--   snapshot_date             The last landed day of the week, whose state this is.
--   landed_days               How many days of the week were landed.
--   students                  Students listed, each once.
--   active_classes            Active classes.
--   average_completion_rate   The average completion_rate over the students with assignments, percent.
--   average_score             The average average_score over the students who have one.
--   changed_fields            Fields that changed in the week, over all records.
--   students_change           Students gained since then (lost: negative).
--   completion_change         Points of average_completion_rate gained since then (lost: negative).
--   score_change              Points of average_score gained since then (lost: negative).
WITH weeks AS (
    SELECT
        *,
        CAST(DATE_TRUNC('week', snapshot_date) AS DATE) AS week_begins,
        ROW_NUMBER() OVER (
            PARTITION BY institution, DATE_TRUNC('week', snapshot_date) ORDER BY snapshot_date DESC
        ) AS from_last
    FROM main.institutions_daily
),
summed AS (
    SELECT institution, week_begins, COUNT(*) AS landed_days, SUM(changed_fields) AS changed_fields
    FROM weeks GROUP BY institution, week_begins
),
last AS (SELECT * FROM weeks WHERE from_last = 1)
SELECT
    l.institution,
    l.week_begins,
    l.snapshot_date,
    s.landed_days,
    l.students,
    l.active_classes,
    l.average_completion_rate,
    l.average_score,
    CAST(s.changed_fields AS BIGINT) AS changed_fields,
    l.students - b.students AS students_change,
    {{ m.rounded("l.average_completion_rate - b.average_completion_rate") }} AS completion_change,
    {{ m.rounded("l.average_score - b.average_score") }} AS score_change
FROM last AS l
INNER JOIN summed AS s ON s.institution = l.institution AND s.week_begins = l.week_begins
LEFT JOIN last AS b ON b.institution = l.institution AND b.week_begins = l.week_begins - 7
ORDER BY l.institution, l.week_begins
