-- Who entered or left the list of students to watch, and whose reasons changed, from `was_watched` to `now_watched`.
INSERT INTO ops.feed BY NAME
SELECT
    $number AS number,
    'students_to_watch' AS table_name,
    COALESCE(n.student_id, w.student_id) AS student_id,
    CASE WHEN w.shown IS NULL THEN 'added' WHEN n.shown IS NULL THEN 'removed' ELSE 'changed' END AS change
FROM now_watched AS n FULL JOIN was_watched AS w USING (student_id)
WHERE n.shown IS DISTINCT FROM w.shown
