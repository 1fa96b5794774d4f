-- For the morning page: the days of the trend, after a first one.
SELECT snapshot_date, students, average_completion_rate, average_score, active_percent
FROM main.progress_daily WHERE snapshot_date > $first ORDER BY snapshot_date
