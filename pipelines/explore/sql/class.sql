-- Explore: one class as it is now.
SELECT
    c.class_title, c.class_code, c.course_name, c.teacher_name, c.class_room,
    CASE c.class_status WHEN 1 THEN 'active' WHEN 0 THEN 'inactive' END AS status,
    c.student_count, s.average_completion_rate, s.average_score,
    a.assignment_count, a.students_with_submissions
FROM main.classes AS c
LEFT JOIN main.class_summaries AS s USING (class_id)
LEFT JOIN main.class_assignment_activity AS a USING (class_id)
WHERE class_id = $class_id
