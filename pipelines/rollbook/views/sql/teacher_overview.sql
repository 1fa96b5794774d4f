-- teacher_overview: One row per primary teacher of a listed class.
-- key: teacher_id
--
--   teacher_id          The primary teacher's id.
--   teacher_name        The primary teacher's name.
--   teacher_email       The primary teacher's email address.
--   class_count         Classes, active or not.
--   active_class_count  Active classes.
--   student_count       Different students whose records list one of the classes.
--   student_places      The sum of student_count over the classes: a student in two of them counts twice.
WITH listed AS (
    SELECT c.teacher_id, COUNT(DISTINCT e.student_id) AS students
    FROM main.classes AS c INNER JOIN main.student_classes AS e USING (class_id)
    GROUP BY c.teacher_id
)
SELECT
    teacher_id,
    MAX(teacher_name) AS teacher_name,
    MAX(teacher_email) AS teacher_email,
    {{ metric.class_count }} AS class_count,
    {{ metric.active_class_count }} AS active_class_count,
    COALESCE(ANY_VALUE(l.students), 0) AS student_count,
    {{ metric.student_places }} AS student_places
FROM main.classes LEFT JOIN listed AS l USING (teacher_id)
WHERE teacher_id IS NOT NULL
GROUP BY teacher_id
