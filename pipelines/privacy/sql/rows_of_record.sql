-- Subject: the rows about a student's record in a table that names the records of several sets.
SELECT * FROM {{ relation }} WHERE id = $student AND set_name IN (SELECT UNNEST($sets)) ORDER BY ALL
