-- For the morning page and the status: how many students turned inactive within the last seven days.
SELECT COUNT(*) FROM main.students_to_watch
WHERE is_inactive AND term_days_inactive < 7 + (SELECT value FROM main.thresholds WHERE name = 'inactive_days')
