-- For the morning page: what one day changed, in counts.
SELECT
    COUNT(*) FILTER (table_name = 'students' AND change IN ('added', 'returned')),
    COUNT(*) FILTER (table_name = 'students' AND change = 'removed'),
    COUNT(DISTINCT student_id) FILTER (table_name = 'student_classes' AND change IN ('added', 'returned')),
    COUNT(DISTINCT student_id) FILTER (table_name = 'student_classes' AND change = 'removed'),
    COUNT(DISTINCT student_id) FILTER (column_name = 'completed_assignments'
        AND TRY_CAST(new_value AS BIGINT) > TRY_CAST(old_value AS BIGINT)),
    COUNT(*) FILTER (table_name = 'student_summaries' AND column_name = 'average_score'
        AND TRY_CAST(new_value AS DOUBLE) > TRY_CAST(old_value AS DOUBLE)),
    COUNT(*) FILTER (table_name = 'student_summaries' AND column_name = 'average_score'
        AND TRY_CAST(new_value AS DOUBLE) < TRY_CAST(old_value AS DOUBLE)),
    COUNT(*) FILTER (table_name = 'classes' AND change IN ('added', 'returned')),
    COUNT(*) FILTER (table_name = 'classes' AND (change = 'removed'
        OR column_name = 'class_status' AND new_value = '0')),
    COUNT(*) FILTER (table_name = 'classes' AND column_name = 'teacher_id')
FROM main.changes WHERE snapshot_date = $day
