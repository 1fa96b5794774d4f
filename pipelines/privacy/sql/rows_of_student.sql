-- Subject: the rows of one table or view that are about a student.
SELECT * FROM {{ relation }} WHERE student_id = $student ORDER BY ALL
