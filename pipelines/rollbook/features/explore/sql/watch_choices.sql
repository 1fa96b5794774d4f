-- Explore: the classes, teachers and courses of the students to watch on a day, or no longer to watch, to choose from.
WITH listed AS (
    SELECT DISTINCT
        e.class_id, COALESCE(c.class_title, e.class_title) AS class_title, c.class_code, c.teacher_id, c.teacher_name,
        c.course_id, c.course_name
    FROM student_classes_as_of($day) AS e SEMI JOIN watching USING (student_id)
    LEFT JOIN classes_as_of($day) AS c USING (class_id)
),
one AS (
    SELECT 'class' AS kind, class_id AS key, ANY_VALUE(class_title) AS title, ANY_VALUE(class_code) AS code
    FROM listed GROUP BY class_id
    UNION ALL
    SELECT 'teacher', teacher_id, ANY_VALUE(teacher_name), NULL FROM listed WHERE teacher_id IS NOT NULL GROUP BY teacher_id
    UNION ALL
    SELECT 'course', course_id, ANY_VALUE(course_name), NULL FROM listed WHERE course_id IS NOT NULL GROUP BY course_id
)
SELECT kind, key, COALESCE(({{ apart("kind || title", "code", "key") }})[LENGTH(kind) + 1:], CAST(key AS VARCHAR)) AS title
FROM one
ORDER BY {{ in_order("title") }}, key
