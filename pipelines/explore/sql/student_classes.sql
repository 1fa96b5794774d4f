-- Explore: one student's times in classes, the newest first.
SELECT
    class_id,
    class_title,
    course_name,
    CASE WHEN is_from_before THEN joined_on || ' or before' ELSE CAST(joined_on AS VARCHAR) END AS joined_on,
    left_on
FROM main.enrollment_spans
WHERE student_id = $student_id
ORDER BY left_on DESC NULLS FIRST, class_title, class_id
