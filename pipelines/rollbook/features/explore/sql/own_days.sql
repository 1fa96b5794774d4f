-- Explore: per landed day, the average completion of the students who have a value in a column of the school's own lists
-- now.
SELECT
    d.snapshot_date AS day, o.{{ column }} AS value,
    AVG(CASE WHEN d.total_assignments > 0 THEN d.completion_rate END) AS completion
FROM main.student_daily AS d INNER JOIN main.students_own AS o USING (student_id)
WHERE o.{{ column }} IS NOT NULL AND d.snapshot_date > CAST($since AS DATE)
GROUP BY d.snapshot_date, o.{{ column }}
