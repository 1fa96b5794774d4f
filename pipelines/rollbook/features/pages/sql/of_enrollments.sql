-- Progress reports: the chosen students' classes since a day, those that they left too, with the classes' averages.
SELECT
    e.student_id, e.class_id, e.class_title, e.joined_on, e.is_from_before, e.left_on, e.end_reason,
    c.teacher_name,
    CASE WHEN LEAST(v.student_count, v.roster_students) >= $least THEN v.average_completion_rate END AS completion,
    CASE WHEN LEAST(v.student_count, v.roster_students) >= $least THEN v.average_score END AS score
FROM main.enrollment_spans AS e
SEMI JOIN chosen_students USING (student_id)
LEFT JOIN main.classes AS c USING (class_id)
LEFT JOIN main.class_comparison AS v USING (class_id)
WHERE e.left_on IS NULL OR e.left_on >= $since
ORDER BY e.student_id, e.left_on IS NOT NULL, {{ in_order("e.class_title") }}, e.class_id, e.joined_on
