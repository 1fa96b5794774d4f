-- Explore: the listed classes of the teacher with an email address, each with its listed students.
SELECT s.student_id, c.class_id
FROM main.classes AS c
LEFT JOIN main.student_classes AS e USING (class_id)
LEFT JOIN main.students AS s ON s.student_id = e.student_id
WHERE LOWER(TRIM(c.teacher_email)) = $login
