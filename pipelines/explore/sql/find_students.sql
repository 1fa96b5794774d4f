-- Explore: the students whose name, email or reference contains a text, or with this id, including former ones.
WITH known AS (
    SELECT student_id, name, email, reference_id, valid_to
    FROM history.students
    WHERE $text = '' OR CAST(student_id AS VARCHAR) = $text
        OR CONTAINS(LOWER(CONCAT_WS(' ', name, email, reference_id)), LOWER($text))
    QUALIFY ROW_NUMBER() OVER (PARTITION BY student_id ORDER BY valid_from DESC) = 1
)
SELECT
    k.student_id,
    CONCAT_WS(
        ', ', k.name, k.reference_id, k.student_id, CASE WHEN s.student_id IS NULL THEN 'left ' || k.valid_to END
    )
FROM known AS k LEFT JOIN main.students AS s USING (student_id)
ORDER BY s.student_id IS NULL, k.name, k.student_id LIMIT $most
