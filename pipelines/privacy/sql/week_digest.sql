-- A checksum of a day's input to the aggregates, without the thresholds.
{% import "_known.sql" as known with context %}
SELECT COALESCE(BIT_XOR(MD5_NUMBER_LOWER(CAST(r AS VARCHAR))), 0)
FROM (
    SELECT 'student' AS level, * FROM ({{ known.students() }})
    UNION ALL BY NAME
    SELECT DISTINCT level, id, student_id FROM ({{ known.members() }})
) AS r
