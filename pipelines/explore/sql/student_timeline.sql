-- Explore: what changed for one student after the first landed day, in words, the newest first.
-- The summary and the activity tracking both have a last day of activity, which mostly change together.
WITH told AS (
    SELECT DISTINCT
        snapshot_date,
        table_name = 'students' AS is_of_listing,
        CASE
            WHEN table_name = 'students' AND change = 'added' THEN 'new at the institution'
            WHEN table_name = 'students' AND change = 'returned' THEN 'back at the institution'
            WHEN table_name = 'students' AND change = 'removed' THEN 'no longer listed'
            WHEN table_name = 'student_classes' AND change = 'removed' THEN 'left ' || COALESCE(class_title, 'class ' || class_id)
            WHEN table_name = 'student_classes' AND change <> 'changed'
                THEN 'joined ' || COALESCE(class_title, 'class ' || class_id)
            ELSE REPLACE(column_name, '_', ' ')
        END AS what,
        old_value,
        new_value
    FROM main.changes
    LEFT JOIN (
        SELECT class_id, ARG_MAX(class_title, valid_from) AS class_title
        FROM history.student_classes WHERE student_id = $student_id GROUP BY class_id
    ) USING (class_id)
    WHERE student_id = $student_id
        AND snapshot_date > (SELECT MIN(snapshot_date) FROM spans.days)
        AND (table_name IN ('students', 'student_classes') OR change = 'changed')
)
SELECT snapshot_date, what, old_value, new_value, COUNT(*) OVER () AS total
FROM told
ORDER BY snapshot_date DESC, is_of_listing DESC, what, old_value, new_value LIMIT $most OFFSET $skip
