-- Explore: the teachers of listed classes whose name or email contains a text, or with this id.
{% import "_words.sql" as words %}
WITH listed AS (
    SELECT c.teacher_id, COUNT(DISTINCT e.student_id) AS students, COUNT(DISTINCT w.student_id) AS watched
    FROM main.classes AS c
    INNER JOIN main.student_classes AS e USING (class_id)
    LEFT JOIN (SELECT student_id FROM watching WHERE severity IS NOT NULL) AS w USING (student_id)
    GROUP BY c.teacher_id
)
SELECT
    c.teacher_id, COALESCE(MAX(c.teacher_name), CAST(c.teacher_id AS VARCHAR)) AS teacher,
    MAX(c.teacher_email) AS email,
    {{ metric.active_class_count }} AS "active classes",
    COALESCE(ANY_VALUE(l.students), 0) AS students, COALESCE(ANY_VALUE(l.watched), 0) AS "to watch"
FROM main.classes AS c LEFT JOIN listed AS l USING (teacher_id)
WHERE c.teacher_id IS NOT NULL
    AND (CAST(c.teacher_id AS VARCHAR) = $text OR {{ words.held("c.teacher_name, c.teacher_email") }})
GROUP BY c.teacher_id
