-- Explore: a row per value of a column of the school's own lists, as they are now; `watching` are those to watch.
SELECT
    o.{{ column }} AS value, COUNT(*) AS students, COUNT(w.student_id) AS watched,
    AVG(CASE WHEN m.total_assignments > 0 THEN m.completion_rate END) AS completion, AVG(m.average_score) AS score
FROM main.students_own AS o
LEFT JOIN main.student_summaries AS m USING (student_id)
LEFT JOIN watching AS w ON w.student_id = o.student_id AND w.severity IS NOT NULL
WHERE o.{{ column }} IS NOT NULL
GROUP BY o.{{ column }} ORDER BY {{ order }}
