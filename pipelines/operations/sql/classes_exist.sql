-- The classes that students list but the class list lacks.
SELECT DISTINCT s.class_id
FROM main.student_classes AS s LEFT JOIN main.classes AS c ON c.class_id = s.class_id
WHERE c.class_id IS NULL
