-- Subject: a student's rows in a table that names records of several sets by `set_name` and `id`.
SELECT * FROM {{ relation }} WHERE id = $student AND set_name IN (SELECT UNNEST($sets)) ORDER BY ALL
