-- courses: One row per course that a listed class belongs to.
--
--   course_id           The course's id.
--   course_name         The course's name.
--   class_count         Its classes, active or not.
--   active_class_count  Its active classes.
--   teacher_count       The primary teachers of its classes.
--   student_places      The sum of student_count over its classes: who is in two of them counts twice.
SELECT
    course_id,
    MAX(course_name) AS course_name,
    COUNT(*) AS class_count,
    COUNT(*) FILTER (WHERE class_status = 1) AS active_class_count,
    COUNT(DISTINCT teacher_id) AS teacher_count,
    CAST(SUM(student_count) AS BIGINT) AS student_places
FROM main.classes
WHERE course_id IS NOT NULL
GROUP BY course_id
