-- teachers: One row per primary teacher of a listed class.
--
--   teacher_id          The primary teacher's id.
--   teacher_name        The primary teacher's name.
--   teacher_email       The primary teacher's email address.
--   class_count         Classes, active or not.
--   active_class_count  Active classes.
--   student_places      The sum of student_count over the classes: who is in two of them counts twice.
SELECT
    teacher_id,
    MAX(teacher_name) AS teacher_name,
    MAX(teacher_email) AS teacher_email,
    COUNT(*) AS class_count,
    COUNT(*) FILTER (WHERE class_status = 1) AS active_class_count,
    CAST(SUM(student_count) AS BIGINT) AS student_places
FROM main.classes
WHERE teacher_id IS NOT NULL
GROUP BY teacher_id
