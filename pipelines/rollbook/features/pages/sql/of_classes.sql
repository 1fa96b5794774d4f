-- Progress reports: the chosen active classes, against the other classes of their course.
SELECT
    v.class_id, c.class_title, v.class_code, v.course_name, v.teacher_id, v.teacher_name,
    v.average_completion_rate AS completion, v.completion_vs_course, v.average_score AS score, v.score_vs_course,
    v.others_in_course
FROM main.class_comparison AS v
INNER JOIN (
    SELECT class_id, {{ apart("class_title", "class_code", "class_id") }} AS class_title FROM main.class_comparison
) AS c USING (class_id)
SEMI JOIN chosen_classes USING (class_id)
ORDER BY {{ in_order("v.class_title") }}, v.class_title, v.class_id
