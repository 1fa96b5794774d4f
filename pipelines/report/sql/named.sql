-- For the morning page with names: the first students to speak to, by class; in a class the new ones first.
WITH first AS (
    SELECT student_id, name, reason, severity, COALESCE(change = 'newly to watch', FALSE) AS is_new
    FROM to_watch WHERE severity IS NOT NULL
    ORDER BY is_new DESC, severity DESC, student_id LIMIT {{ most }}
),
listed AS (
    SELECT f.*, e.class_id, COALESCE(c.class_title, e.class_title, 'In no class') AS class_title
    FROM first AS f
    LEFT JOIN main.student_classes AS e USING (student_id)
    LEFT JOIN main.classes AS c USING (class_id)
)
SELECT class_id, class_title, name, is_new, reason
FROM listed
ORDER BY
    COUNT(*) FILTER (is_new) OVER (PARTITION BY class_id) DESC,
    COUNT(*) OVER (PARTITION BY class_id) DESC,
    class_title, class_id, is_new DESC, severity DESC, name, student_id
