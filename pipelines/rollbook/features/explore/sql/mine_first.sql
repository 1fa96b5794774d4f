-- Explore: the first whom a reader speaks to: the new ones first; nobody who was spoken to, and rests.
SELECT w.student_id, s.name, w.reason, w.severity, w.change = 'newly to watch' AS is_new, c.titles
FROM watching AS w
INNER JOIN main.students AS s USING (student_id)
ANTI JOIN resting AS r USING (student_id)
LEFT JOIN (
    SELECT student_id, STRING_AGG(class_title, '; ' ORDER BY class_title, class_id) AS titles
    FROM main.student_classes GROUP BY student_id
) AS c USING (student_id)
WHERE w.severity IS NOT NULL
ORDER BY is_new DESC, w.severity DESC, {{ in_order("s.name") }}, w.student_id LIMIT $most
