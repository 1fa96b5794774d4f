-- Explore: the first of the active classes that a reader sees, with how many of the reader's students are in them and
-- to watch: those with most.
SELECT
    c.class_id, {{ apart("c.class_title", "c.class_code", "c.class_id") }} AS title, c.teacher_name,
    COALESCE(w.students, 0) AS students, COALESCE(w.watched, 0) AS watched, COALESCE(w.new, 0) AS new,
    COUNT(*) OVER () AS in_all
FROM main.classes AS c
LEFT JOIN (
    SELECT
        e.class_id, COUNT(*) AS students, COUNT(w.severity) AS watched,
        COUNT(*) FILTER (w.change = 'newly to watch') AS new
    FROM main.student_classes AS e LEFT JOIN watching AS w USING (student_id)
    GROUP BY e.class_id
) AS w USING (class_id)
WHERE c.class_status = 1
ORDER BY watched DESC, {{ in_order("title") }}, c.class_id LIMIT $most
