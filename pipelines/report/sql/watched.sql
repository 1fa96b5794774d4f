-- For the morning page: each class's students, those to watch and those newly to watch; the most to watch first.
SELECT
    e.class_id, ANY_VALUE(COALESCE(c.class_title, e.class_title)), COUNT(*),
    COUNT(w.student_id) AS watched, COUNT(*) FILTER (w.change = 'newly to watch') AS new
FROM main.student_classes AS e
LEFT JOIN to_watch AS w ON w.student_id = e.student_id AND w.severity IS NOT NULL
LEFT JOIN main.classes AS c USING (class_id)
GROUP BY e.class_id
HAVING COUNT(w.student_id) > 0
ORDER BY watched DESC, new DESC, e.class_id
