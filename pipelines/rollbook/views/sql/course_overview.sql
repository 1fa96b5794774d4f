-- course_overview: One row per course of a listed class.
-- key: course_id
-- order: course_name, course_id
--
--   course_id           The course's id.
--   course_name         The course's name.
--   class_count         Its classes, active or not.
--   active_class_count  Its active classes.
--   teacher_count       Number of primary teachers of its classes.
--   student_count       Different students whose records list one of its classes.
--   student_places      The sum of student_count over the active ones: a student in two of them counts twice.
WITH listed AS (
    SELECT c.course_id, COUNT(DISTINCT e.student_id) AS students
    FROM main.classes AS c INNER JOIN main.student_classes AS e USING (class_id)
    GROUP BY c.course_id
)
SELECT
    course_id,
    MAX(course_name) AS course_name,
    {{ metric.class_count }} AS class_count,
    {{ metric.active_class_count }} AS active_class_count,
    COUNT(DISTINCT teacher_id) AS teacher_count,
    COALESCE(ANY_VALUE(l.students), 0) AS student_count,
    {{ metric.student_places }} AS student_places
FROM main.classes LEFT JOIN listed AS l USING (course_id)
WHERE course_id IS NOT NULL
GROUP BY course_id
