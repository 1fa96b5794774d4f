-- Which classes do best, and who teaches them?
SELECT
    class_title, teacher_name, student_count AS students,
    average_completion_rate AS completion, average_score AS score
FROM class_comparison
ORDER BY completion DESC LIMIT 5
