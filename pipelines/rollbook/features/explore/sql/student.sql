-- Explore: one student's latest known state, also of a former student.
SELECT
    s.name, s.email, s.reference_id, s.registration_date, s.valid_to AS gone_on,
    CASE WHEN m.total_assignments > 0 THEN m.completion_rate END AS completion,
    m.completed_assignments, m.total_assignments, m.average_score AS score, m.total_time_minutes,
    m.valid_from AS unchanged_since,
    GREATEST(m.last_activity_date, a.last_activity_date) AS last_activity_date,
    a.has_ever_logged_in, a.assignment_missing_count, a.assignment_submission_count
FROM (
    SELECT * FROM history.students WHERE student_id = $student_id ORDER BY valid_from DESC LIMIT 1
) AS s
LEFT JOIN (
    SELECT * FROM history.student_summaries WHERE student_id = $student_id ORDER BY valid_from DESC LIMIT 1
) AS m USING (student_id)
LEFT JOIN (
    SELECT * FROM history.student_activity WHERE student_id = $student_id ORDER BY valid_from DESC LIMIT 1
) AS a USING (student_id)
