-- Explore: the classes whose title, code, course or teacher contains a text, or with this id; of a teacher or a course
-- only, if one is given. Its students are those whose records list it.
{% import "_words.sql" as words %}
SELECT
    c.class_id, c.class_title AS class, c.course_name AS course, c.course_id AS "course id",
    c.teacher_name AS teacher, c.teacher_id AS "teacher id",
    COALESCE(w.students, 0) AS students, {{ metric.class_completion }} AS "completion, %",
    v.completion_vs_course AS "against its course", {{ metric.class_score }} AS score,
    COALESCE(w.watched, 0) AS "to watch",
    CASE WHEN c.class_status = 1 THEN 'active' WHEN c.class_status <> 1 THEN 'inactive' END AS status
FROM main.classes AS c
LEFT JOIN main.class_summaries AS s USING (class_id)
LEFT JOIN main.class_assignment_activity AS a USING (class_id)
LEFT JOIN (SELECT class_id, completion_vs_course FROM main.class_comparison) AS v USING (class_id)
LEFT JOIN (
    SELECT e.class_id, COUNT(*) AS students, COUNT(w.severity) AS watched
    FROM main.student_classes AS e LEFT JOIN watching AS w USING (student_id)
    GROUP BY e.class_id
) AS w USING (class_id)
WHERE ($teacher IS NULL OR c.teacher_id = $teacher) AND ($course IS NULL OR c.course_id = $course)
    AND (
        CAST(c.class_id AS VARCHAR) = $text
        OR {{ words.held("c.class_title, c.class_code, c.course_name, c.teacher_name") }}
    )
