-- A student's latest name, and whether the student is listed now.
SELECT name, valid_to IS NULL AS is_listed
FROM history.students
WHERE student_id = $student
ORDER BY valid_from DESC
LIMIT 1
