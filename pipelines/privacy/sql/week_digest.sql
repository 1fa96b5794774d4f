-- One number for all that a day's aggregates are made of: it changes when any of it does. Without the thresholds.
{% import "_known.sql" as known with context %}
SELECT COALESCE(BIT_XOR(MD5_NUMBER_LOWER(CAST(r AS VARCHAR))), 0)
FROM (
    SELECT 'student' AS level, * FROM ({{ known.students() }})
    UNION ALL BY NAME
    SELECT DISTINCT level, id, student_id FROM ({{ known.members() }})
) AS r
