-- Progress reports: the chosen students' figures, and why each is to watch.
SELECT
    p.student_id, s.name, p.name AS own_name, p.reference_id, p.completion, p.completed_assignments, p.total_assignments,
    p.average_score AS score, p.assignment_missing_count AS missing, p.last_activity_date, p.has_ever_logged_in,
    p.stated_on, w.severity, w.reason
FROM main.student_progress AS p
INNER JOIN (
    SELECT student_id, {{ apart("name", "reference_id", "student_id") }} AS name FROM main.students
) AS s USING (student_id)
SEMI JOIN chosen_students USING (student_id)
LEFT JOIN main.students_to_watch AS w USING (student_id)
ORDER BY {{ in_order("p.name") }}, p.name, p.student_id
