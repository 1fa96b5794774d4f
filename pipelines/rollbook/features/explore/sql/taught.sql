-- Explore: the listed classes of a teacher or a course, and their students, each counted once.
SELECT
    COUNT(*) AS classes,
    {{ metric.active_class_count }} AS active_classes,
    ANY_VALUE(teacher_name) AS teacher_name,
    ANY_VALUE(teacher_email) AS teacher_email,
    ANY_VALUE(course_name) AS course_name,
    ANY_VALUE(l.students) AS students,
    ANY_VALUE(l.watched) AS watched,
    ANY_VALUE(l.completion) AS completion,
    ANY_VALUE(l.score) AS score
FROM main.classes
CROSS JOIN (
    SELECT
        COUNT(*) AS students, COUNT(w.severity) AS watched,
        AVG({{ metric.completion }}) AS completion, AVG(average_score) AS score
    FROM (
        SELECT DISTINCT e.student_id
        FROM main.student_classes AS e INNER JOIN main.classes AS c USING (class_id)
        WHERE ($teacher IS NULL OR c.teacher_id = $teacher) AND ($course IS NULL OR c.course_id = $course)
    )
    LEFT JOIN main.student_summaries USING (student_id)
    LEFT JOIN watching AS w USING (student_id)
) AS l
WHERE ($teacher IS NULL OR teacher_id = $teacher) AND ($course IS NULL OR course_id = $course)
