-- student_changes(from_day, to_day): each student's figures as of two days, and the difference.
{% import "_student_state.sql" as state with context %}
{#- These are of other work where total_assignments is lower. -#}
{% set of_assignments = ("completion", "average_score", "completed_assignments", "assignment_missing_count") %}
{% macro listed(day) -%}
    SELECT
        s.student_id, {{ metric.completion }} AS completion, h.average_score, h.completed_assignments,
        h.total_assignments, h.total_time_minutes, a.assignment_missing_count
    FROM history.students AS s
    LEFT JOIN history.student_summaries AS h ON h.student_id = s.student_id AND {{ m.valid_on("h", day) }}
    LEFT JOIN history.student_activity AS a ON a.student_id = s.student_id AND {{ m.valid_on("a", day) }}
    WHERE {{ m.valid_on("s", day) }}
{%- endmacro %}
CREATE OR REPLACE MACRO main.student_changes(from_day, to_day) AS TABLE
WITH was AS (
{{ listed(m.landed(version, "from_day")) }}
),
now AS (
{{ listed(m.landed(version, "to_day")) }}
),
names AS (
    SELECT student_id, ARG_MAX(name, valid_from) AS name FROM history.students
    WHERE valid_from <= CAST(to_day AS DATE) GROUP BY student_id
)
SELECT
    COALESCE(n.student_id, w.student_id) AS student_id,
    names.name,
    {% for figure in of_assignments + ("total_assignments", "total_time_minutes") %}
    {% set difference = m.difference("n." ~ figure ~ " - w." ~ figure) %}
    w.{{ figure }} AS {{ figure }}_then,
    n.{{ figure }} AS {{ figure }}_now,
    {% if figure == "total_assignments" %}
    {{ difference }}
    {% else %}
    {{ state.of_same_count("n", "w", difference, "total_assignments" if figure in of_assignments else figure) }}
    {% endif %}
        AS {{ figure }}_difference,
    {% endfor %}
    w.student_id IS NULL AS is_new,
    n.student_id IS NULL AS is_gone
FROM was AS w FULL JOIN now AS n USING (student_id)
LEFT JOIN names ON names.student_id = COALESCE(n.student_id, w.student_id)
ORDER BY COALESCE(n.student_id, w.student_id)
