-- flagged: one row per landed day, student to watch on it, and reason, and the day with the reason; `any` is all reasons
-- together.
WITH asked AS (SELECT snapshot_date AS on_day FROM spans.days WHERE snapshot_date BETWEEN $first AND $last),
{{ watched }},
told AS (
    SELECT
        on_day AS day, seen_on, student_id,
        UNNEST([{% for flag in flags %}CASE WHEN {{ flag }} THEN '{{ flag }}' END, {% endfor %}'any']) AS reason
    FROM watched
)
SELECT day, student_id, reason, seen_on FROM told WHERE reason IS NOT NULL
