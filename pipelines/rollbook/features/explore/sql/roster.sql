-- Explore: the students of one class. Completion and score are those of all their classes.
{% import "_words.sql" as words %}
SELECT
    r.student_id, r.name AS student,
    CASE WHEN m.total_assignments > 0 THEN m.completion_rate END AS "completion in all classes, %",
    a.assignment_missing_count AS missing,
    m.average_score AS score,
    GREATEST(m.last_activity_date, a.last_activity_date) AS "last active",
    w.reason AS "to watch"
FROM main.roster AS r
LEFT JOIN main.student_summaries AS m USING (student_id)
LEFT JOIN main.student_activity AS a USING (student_id)
LEFT JOIN watching AS w USING (student_id)
WHERE
    r.class_id = $class_id AND {{ words.held("r.name") }}
    {% if own_where %}
    AND r.student_id IN (SELECT o.student_id FROM main.students_own AS o WHERE {{ own_where }})
    {% endif %}
