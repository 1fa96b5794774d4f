-- For the morning page: classes of a minimum size compared with their course, best first.
SELECT class_title, COALESCE(course_name, ''), student_count, average_completion_rate, average_score, completion_vs_course
FROM main.class_comparison
WHERE completion_vs_course IS NOT NULL AND classes_in_course > 1 AND student_count >= {{ least }}
ORDER BY completion_vs_course DESC, class_id
