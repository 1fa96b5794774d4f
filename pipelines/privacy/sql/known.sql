-- The name of a student, as it is or was last, and whether the student is listed now.
SELECT name, valid_to IS NULL AS is_listed
FROM history.students
WHERE student_id = $student
ORDER BY valid_from DESC
LIMIT 1
