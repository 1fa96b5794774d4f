-- Explore: the listed students with a value in a column of the school's own lists, each with the student's classes.
SELECT s.student_id, e.class_id
FROM main.students_own AS o
INNER JOIN main.students AS s USING (student_id)
LEFT JOIN main.student_classes AS e USING (student_id)
WHERE TRIM(CAST(o."{{ column }}" AS VARCHAR)) = $value
