-- The active classes whose student_count is not the number of students who list them.
SELECT c.class_id
FROM main.classes AS c
LEFT JOIN (SELECT class_id, COUNT(*) AS listed FROM main.student_classes GROUP BY class_id) AS r ON r.class_id = c.class_id
WHERE c.class_status = 1 AND c.student_count <> COALESCE(r.listed, 0)
