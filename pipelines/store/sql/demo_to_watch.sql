-- Who needs a look: low completion, and not seen for a week?
SELECT s.student_id, s.name, m.completion_rate, a.days_since_last_activity
FROM students AS s JOIN student_summaries AS m USING (student_id) JOIN student_activity AS a USING (student_id)
WHERE m.completion_rate < 50 AND a.days_since_last_activity > 7
ORDER BY m.completion_rate LIMIT 5
