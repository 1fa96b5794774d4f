-- For the morning page: what the newest day changed, in counts. Who leaves the school has not left a class. Submitted
-- assignments are counted, not completed ones, of which the service may begin to count again.
SELECT
    COUNT(*) FILTER (table_name = 'students' AND change IN ('added', 'returned')),
    COUNT(*) FILTER (table_name = 'students' AND change = 'removed'),
    COUNT(DISTINCT student_id) FILTER (table_name = 'student_classes' AND change IN ('added', 'returned')),
    COUNT(DISTINCT student_id) FILTER (table_name = 'student_classes' AND change = 'removed'
        AND student_id IN (SELECT s.student_id FROM main.students AS s)),
    COUNT(*) FILTER (column_name = 'assignment_submission_count'
        AND TRY_CAST(new_value AS BIGINT) > TRY_CAST(old_value AS BIGINT)),
    COUNT(*) FILTER (column_name = 'assignment_missing_count'
        AND TRY_CAST(new_value AS BIGINT) > TRY_CAST(old_value AS BIGINT)),
    COUNT(*) FILTER (table_name = 'student_summaries' AND column_name = 'average_score'
        AND TRY_CAST(new_value AS DOUBLE) > TRY_CAST(old_value AS DOUBLE)),
    COUNT(*) FILTER (table_name = 'student_summaries' AND column_name = 'average_score'
        AND TRY_CAST(new_value AS DOUBLE) < TRY_CAST(old_value AS DOUBLE)),
    COUNT(*) FILTER (table_name = 'classes' AND change IN ('added', 'returned')),
    COUNT(*) FILTER (table_name = 'classes' AND (change = 'removed'
        OR column_name = 'class_status' AND old_value = '1' AND new_value <> '1')),
    COUNT(*) FILTER (table_name = 'classes' AND column_name = 'teacher_id')
FROM main.changes WHERE snapshot_date = $day
