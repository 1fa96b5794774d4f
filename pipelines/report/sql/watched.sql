-- For the morning page: per class the students in it, and those to watch for one reason and for several.
SELECT
    e.class_id, ANY_VALUE(COALESCE(c.class_title, e.class_title)), COUNT(*),
    COUNT(*) FILTER (w.reason_count = 1), COUNT(*) FILTER (w.reason_count > 1) AS several
FROM main.student_classes AS e
LEFT JOIN to_watch AS w USING (student_id)
LEFT JOIN main.classes AS c USING (class_id)
GROUP BY e.class_id
HAVING COUNT(w.student_id) > 0
ORDER BY several DESC, COUNT(w.student_id) DESC, e.class_id
