-- How many other students, and refused records under another id or none, have an email or reference id of one student.
WITH known AS MATERIALIZED (
    SELECT LOWER(TRIM(UNNEST([email, reference_id]))) AS text FROM history.students WHERE student_id = $student
),
named AS (SELECT DISTINCT text FROM known WHERE text <> '')
SELECT
    (
        SELECT COUNT(DISTINCT student_id) FROM history.students
        WHERE student_id <> $student
            AND (LOWER(TRIM(email)) IN (FROM named) OR LOWER(TRIM(reference_id)) IN (FROM named))
    ) + (
        SELECT COUNT(*) FROM ops.rejects AS r
        WHERE r.set_name = 'students' AND r.id IS DISTINCT FROM $student
            AND EXISTS (SELECT 1 FROM named AS n WHERE LENGTH(n.text) > 3 AND CONTAINS(LOWER(r.record), n.text))
    )
