-- For the morning page with names: the students to watch, each once, the new ones first, then the most severe, last
-- those who were spoken to; with their classes, and their completion in the last 28 days: from so many days ago.
WITH first AS (
    SELECT
        student_id, reason, severity, r.until,
        COALESCE(change = 'newly to watch', FALSE) AND r.until IS NULL AS is_new
    FROM to_watch LEFT JOIN resting AS r USING (student_id)
    WHERE severity IS NOT NULL
    ORDER BY r.until IS NOT NULL, is_new DESC, severity DESC, student_id LIMIT {{ most }}
),
titles AS (
    SELECT e.student_id, STRING_AGG(COALESCE(c.class_title, e.class_title), ', ' ORDER BY e.class_title, class_id) AS classes
    FROM main.student_classes AS e SEMI JOIN first USING (student_id) LEFT JOIN main.classes AS c USING (class_id)
    GROUP BY e.student_id
),
lately AS ({{ lately }})
SELECT
    s.name, f.is_new, f.until, f.severity, f.reason,
    COALESCE(t.classes, 'no class known') AS classes, l.completion
FROM first AS f
INNER JOIN (
    SELECT student_id, {{ apart("name", "reference_id", "student_id") }} AS name FROM main.students
) AS s USING (student_id)
LEFT JOIN titles AS t USING (student_id)
LEFT JOIN lately AS l USING (student_id)
ORDER BY f.until IS NOT NULL, f.is_new DESC, f.severity DESC, f.student_id
