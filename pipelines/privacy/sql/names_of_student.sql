-- Every name that one student ever had; the first ones are those that a student is searched by.
SELECT DISTINCT reference_id, email, name, first_name, last_name
FROM history.students
WHERE student_id = $student
