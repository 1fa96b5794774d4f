-- Progress reports: the chosen students' missing work on each landed day since a day.
SELECT student_id, snapshot_date AS day, assignment_missing_count AS missing
FROM main.student_daily
SEMI JOIN chosen_students USING (student_id)
WHERE snapshot_date >= $since
ORDER BY student_id, day
