-- Explore: the students whose name, email or reference contains a text, or with this id, including former ones.
{% import "_words.sql" as words %}
WITH known AS (
    SELECT student_id, name, email, reference_id, valid_to
    FROM history.students
    WHERE CAST(student_id AS VARCHAR) = $text OR {{ words.held("name, email, reference_id") }}
    QUALIFY ROW_NUMBER() OVER (PARTITION BY student_id ORDER BY valid_from DESC) = 1
)
SELECT
    k.student_id, k.name AS student, k.reference_id AS reference,
    CASE WHEN m.total_assignments > 0 THEN m.completion_rate END AS "completion, %",
    m.average_score AS score,
    GREATEST(m.last_activity_date, a.last_activity_date) AS "last active",
    CASE WHEN s.student_id IS NULL THEN k.valid_to END AS "left on"
FROM known AS k
LEFT JOIN main.students AS s USING (student_id)
LEFT JOIN main.student_summaries AS m USING (student_id)
LEFT JOIN main.student_activity AS a USING (student_id)
WHERE ($text <> '' OR s.student_id IS NOT NULL)
{% if own_where %}
    AND k.student_id IN (SELECT o.student_id FROM main.students_own AS o WHERE {{ own_where }})
{% endif %}
