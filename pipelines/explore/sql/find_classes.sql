-- Explore: the classes whose title, code, course or teacher contains a text, or with this id; active ones first.
SELECT
    class_id,
    CONCAT_WS(', ', class_title, class_code, teacher_name, class_id, CASE WHEN class_status = 0 THEN 'inactive' END)
FROM main.classes
WHERE $text = '' OR CAST(class_id AS VARCHAR) = $text
    OR CONTAINS(LOWER(CONCAT_WS(' ', class_title, class_code, course_name, teacher_name)), LOWER($text))
ORDER BY class_status DESC, class_title, class_id LIMIT $most
