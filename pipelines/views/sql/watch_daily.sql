-- watch_daily: One row per landed day and student to watch on it, or no longer to watch since the landed day before.
-- key: snapshot_date, student_id
--
-- By the present thresholds on every day. Ask it for a day, or for a student: all of it is long.
--
--   snapshot_date       The landed day.
--   student_id          The student's id at the records service.
--   name                The student's full name on that day; of one who is no longer listed, the one before.
--   change              newly, still or no longer to watch, against the landed day before; NULL on the first landed day.
--   severity            As in students_to_watch, on that day; NULL when no longer to watch.
--   severity_before     The same on the landed day before; NULL when not to watch then.
--   reason              Why, in words; NULL when no longer to watch.
--   reason_before       Why on the landed day before; NULL when not to watch then.
--   reason_count        How many of the five reasons hold on that day.
--   is_low_completion   Whether completion was low on that day; this flag and the next as in students_to_watch.
--   is_low_score        Whether the score was low.
--   is_inactive         Whether the student was inactive.
--   is_never_logged_in  Whether the student had never logged in.
--   is_falling          Whether completion or score was falling fast.
--   is_listed           Whether the student was listed on that day: who was not is no longer to watch.
{% import "_watch.sql" as watch with context %}
WITH landed AS (
    SELECT snapshot_date, LAG(snapshot_date) OVER (ORDER BY snapshot_date) AS day_before FROM spans.days
),
asked AS (SELECT snapshot_date, day_before, UNNEST([snapshot_date, day_before]) AS on_day FROM landed),
{{ watch.watched() }},
paired AS (
    SELECT
        snapshot_date, student_id, day_before,
        {% for column in ("name", "severity", "reason") %}
        ANY_VALUE({{ column }}) FILTER (on_day = snapshot_date) AS {{ column }},
        ANY_VALUE({{ column }}) FILTER (on_day < snapshot_date) AS {{ column }}_before,
        {% endfor %}
        {% for flag in watch.flags %}
        COALESCE(BOOL_OR({{ flag }}) FILTER (on_day = snapshot_date), FALSE) AS {{ flag }},
        {% endfor %}
        COALESCE(MAX(reason_count) FILTER (on_day = snapshot_date), 0) AS reason_count
    FROM watched
    GROUP BY snapshot_date, student_id, day_before
)
SELECT
    p.snapshot_date,
    p.student_id,
    COALESCE(s.name, p.name_before) AS name,
    CASE
        WHEN p.day_before IS NULL THEN NULL
        WHEN p.severity IS NULL THEN 'no longer to watch'
        WHEN p.severity_before IS NULL THEN 'newly to watch'
        ELSE 'still to watch'
    END AS change,
    p.severity,
    p.severity_before,
    p.reason,
    p.reason_before,
    p.reason_count,
    {% for flag in watch.flags %}
    p.{{ flag }},
    {% endfor %}
    s.student_id IS NOT NULL AS is_listed
FROM paired AS p
LEFT JOIN history.students AS s ON s.student_id = p.student_id AND {{ watch.valid("s", "p.snapshot_date") }}
ORDER BY p.snapshot_date, p.severity DESC NULLS LAST, p.student_id
