-- Explore: the students, former ones too, classes, teachers and courses that match a text, each with its page's address.
-- Services keep closed classes for good: they and former students come last.
{% import "_words.sql" as words %}
WITH students AS ({{ found_students }}),
classes AS ({{ found_classes }})
SELECT
    CONCAT('/student/', student_id) AS address, student AS found, 'student' AS kind,
    CONCAT_WS(', ', reference, 'left on ' || "left on") AS about, CASE WHEN "left on" IS NULL THEN 1 ELSE 5 END AS place
FROM students
UNION ALL
SELECT
    CONCAT('/class/', class_id), class, 'class', CONCAT_WS(', ', course, teacher, NULLIF(status, 'active')),
    CASE WHEN status = 'inactive' THEN 6 ELSE 2 END
FROM classes
UNION ALL
SELECT CONCAT('/teacher/', teacher_id), ANY_VALUE(teacher_name), 'teacher', ANY_VALUE(teacher_email), 3
FROM main.classes
WHERE teacher_id IS NOT NULL
    AND {{ words.held("teacher_name, teacher_email") }}
GROUP BY teacher_id
UNION ALL
SELECT CONCAT('/course/', course_id), ANY_VALUE(course_name), 'course', CONCAT(COUNT(*), ' classes'), 4
FROM main.classes
WHERE course_id IS NOT NULL AND {{ words.held("course_name") }}
GROUP BY course_id
