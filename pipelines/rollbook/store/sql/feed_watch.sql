-- Who entered or left the list of students to watch, and whose reasons changed, against the file `before`.
INSERT INTO ops.feed BY NAME
WITH now AS (SELECT student_id, HASH(w) AS shown FROM main.students_to_watch AS w),
was AS (SELECT student_id, HASH(w) AS shown FROM before.main.students_to_watch AS w)
SELECT
    $number AS number,
    'students_to_watch' AS table_name,
    COALESCE(n.student_id, w.student_id) AS student_id,
    CASE WHEN w.shown IS NULL THEN 'added' WHEN n.shown IS NULL THEN 'removed' ELSE 'changed' END AS change
FROM now AS n FULL JOIN was AS w USING (student_id)
WHERE n.shown IS DISTINCT FROM w.shown
