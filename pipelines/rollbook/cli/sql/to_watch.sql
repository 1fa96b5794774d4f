-- Who needs a look: low completion, and not seen for a week?
SELECT student_id, name, completion_rate, days_since_last_activity
FROM students
    JOIN student_summaries USING (student_id)
    JOIN student_activity USING (student_id)
WHERE completion_rate < 50 AND days_since_last_activity > 7
ORDER BY completion_rate, days_since_last_activity DESC LIMIT 5
