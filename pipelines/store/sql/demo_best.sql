-- Which classes do best, and who teaches them?
SELECT c.class_title, c.teacher_name, c.student_count, m.average_completion_rate, m.average_score
FROM classes AS c JOIN class_summaries AS m USING (class_id)
WHERE c.class_status = 1 ORDER BY m.average_completion_rate DESC LIMIT 5
