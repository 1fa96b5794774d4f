-- Every identifier one student ever had: email, reference id, name, picture, first and last name.
SELECT DISTINCT email, reference_id, name, profile_image, first_name, last_name
FROM history.students
WHERE student_id = $student
