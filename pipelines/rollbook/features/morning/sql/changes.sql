-- For the morning page: what the newest day changed, in counts. Who leaves the school has not left a class. Submitted
-- assignments are counted, not completed ones, of which the service may begin to count again; a score is then of other
-- work.
WITH again AS (
    SELECT student_id FROM main.changes
    WHERE snapshot_date = $day AND column_name = 'total_assignments'
        AND TRY_CAST(new_value AS BIGINT) < TRY_CAST(old_value AS BIGINT)
)
SELECT
    COUNT(*) FILTER (table_name = 'students' AND change IN ('added', 'returned')),
    COUNT(*) FILTER (table_name = 'students' AND change = 'removed'),
    COUNT(DISTINCT c.student_id) FILTER (table_name = 'student_classes' AND change IN ('added', 'returned')),
    COUNT(DISTINCT c.student_id) FILTER (table_name = 'student_classes' AND change = 'removed'
        AND c.student_id IN (SELECT s.student_id FROM main.students AS s)),
    COUNT(*) FILTER (column_name = 'assignment_submission_count'
        AND TRY_CAST(new_value AS BIGINT) > TRY_CAST(old_value AS BIGINT)),
    COUNT(*) FILTER (column_name = 'assignment_missing_count'
        AND TRY_CAST(new_value AS BIGINT) > TRY_CAST(old_value AS BIGINT)),
    COUNT(*) FILTER (table_name = 'student_summaries' AND column_name = 'average_score'
        AND TRY_CAST(new_value AS DOUBLE) > TRY_CAST(old_value AS DOUBLE) AND again.student_id IS NULL),
    COUNT(*) FILTER (table_name = 'student_summaries' AND column_name = 'average_score'
        AND TRY_CAST(new_value AS DOUBLE) < TRY_CAST(old_value AS DOUBLE) AND again.student_id IS NULL),
    COUNT(*) FILTER (table_name = 'classes' AND change IN ('added', 'returned')),
    COUNT(*) FILTER (table_name = 'classes' AND (change = 'removed'
        OR column_name = 'class_status' AND old_value = '1' AND new_value <> '1')),
    COUNT(*) FILTER (table_name = 'classes' AND column_name = 'teacher_id')
FROM main.changes AS c LEFT JOIN again ON again.student_id = c.student_id
WHERE c.snapshot_date = $day
