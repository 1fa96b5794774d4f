-- One row per group (the school, a course) and measure on a landed day: the last columns are the arguments of `aggregates.figure`.
WITH students AS (
    SELECT
        student_id,
        CAST({{ metric.completion }} AS DOUBLE) AS completion,
        CAST(average_score AS DOUBLE) AS score,
        CASE WHEN is_active THEN 100.0::DOUBLE ELSE 0.0 END AS active,
        CASE WHEN student_id IN (SELECT student_id FROM students_to_watch_as_of({{ day }}))
            THEN 100.0::DOUBLE ELSE 0.0 END AS to_watch
    FROM student_daily
    WHERE snapshot_date = {{ day }}
),
members AS (
    SELECT 'school' AS level, i.school_id AS id, i.school_name AS name, s.student_id
    FROM students AS s
    LEFT JOIN (SELECT MIN(school_id) AS school_id, MIN(school_name) AS school_name FROM main.institution) AS i ON TRUE
    UNION ALL
    SELECT 'course', c.course_id, MIN(c.course_name), e.student_id
    FROM student_classes_as_of({{ day }}) AS e
    INNER JOIN classes_as_of({{ day }}) AS c USING (class_id)
    WHERE c.course_id IS NOT NULL
    GROUP BY c.course_id, e.student_id
),
known AS (UNPIVOT students ON completion, score, active, to_watch INTO NAME measure VALUE value)
SELECT
    level, id, MIN(name) AS name, measure,
    COUNT(*) AS students,
    SUM(value) AS total,
    MAX(value, 4) AS largest,
    BIT_XOR(HASH(student_id)) AS members
FROM members INNER JOIN known USING (student_id)
GROUP BY level, id, measure
ORDER BY level DESC, id, measure
