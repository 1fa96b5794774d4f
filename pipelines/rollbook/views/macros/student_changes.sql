-- student_changes(from_day, to_day): each student's figures as of two days, and the difference.
{% set figures = ("completion_rate", "average_score", "completed_assignments", "total_assignments", "total_time_minutes") %}
CREATE OR REPLACE MACRO main.student_changes(from_day, to_day) AS TABLE
WITH was AS (
    SELECT * FROM history.student_summaries AS h
    WHERE {{ m.valid_on("h", m.landed(version, "from_day")) }}
),
now AS (
    SELECT * FROM history.student_summaries AS h
    WHERE {{ m.valid_on("h", m.landed(version, "to_day")) }}
),
names AS (
    SELECT student_id, ARG_MAX(name, valid_from) AS name FROM history.students
    WHERE valid_from <= CAST(to_day AS DATE) GROUP BY student_id
)
SELECT
    COALESCE(n.student_id, w.student_id) AS student_id,
    names.name,
    {% for figure in figures %}
    w.{{ figure }} AS {{ figure }}_then,
    n.{{ figure }} AS {{ figure }}_now,
    {{ m.difference("n." ~ figure ~ " - w." ~ figure) }} AS {{ figure }}_difference,
    {% endfor %}
    w.student_id IS NULL AS is_new,
    n.student_id IS NULL AS is_gone
FROM was AS w FULL JOIN now AS n USING (student_id)
LEFT JOIN names ON names.student_id = COALESCE(n.student_id, w.student_id)
ORDER BY COALESCE(n.student_id, w.student_id)
