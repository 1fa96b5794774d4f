-- What was one student's record a week ago, and what is it now?
SELECT
    valid_from, valid_to, completed_assignments AS completed,
    completion_rate, average_score, total_time_minutes AS minutes
FROM history.student_summaries
WHERE student_id = (
    SELECT student_id FROM history.student_summaries
    GROUP BY student_id ORDER BY COUNT(*) DESC, student_id LIMIT 1
)
ORDER BY valid_from DESC LIMIT 5
