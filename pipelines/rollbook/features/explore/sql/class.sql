-- Explore: one class, with its own completion, that of its students in all their classes, and its place in its course.
SELECT
    c.class_title, c.class_code, c.course_id, c.course_name, c.teacher_id, c.teacher_name, c.class_room, c.student_count,
    CASE WHEN c.class_status = 1 THEN 'active' WHEN c.class_status <> 1 THEN 'inactive' END AS status,
    {{ metric.class_completion }} AS average_completion_rate, {{ metric.class_score }} AS average_score,
    a.assignment_count, a.students_with_submissions,
    v.completion_vs_course, v.course_completion_rate, v.classes_in_course, v.is_compared,
    r.students, r.completion AS students_completion, r.watched
FROM main.classes AS c
LEFT JOIN main.class_summaries AS s USING (class_id)
LEFT JOIN main.class_assignment_activity AS a USING (class_id)
LEFT JOIN (
    SELECT class_id, completion_vs_course, course_completion_rate, classes_in_course, is_compared
    FROM main.class_comparison WHERE class_id = $class_id
) AS v USING (class_id)
CROSS JOIN (
    SELECT
        {{ metric.roster_students }} AS students, COUNT(severity) AS watched,
        {{ metric.roster_completion_rate }} AS completion
    FROM main.student_classes
    LEFT JOIN main.student_summaries USING (student_id)
    LEFT JOIN watching USING (student_id)
    WHERE class_id = $class_id
) AS r
WHERE c.class_id = $class_id
