-- Subject: a student's rows in one table or view.
SELECT * FROM {{ relation }} WHERE student_id = $student ORDER BY ALL
