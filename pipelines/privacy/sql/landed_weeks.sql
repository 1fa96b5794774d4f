-- One row per ISO week with a landed day: its Monday, and its last landed day.
SELECT CAST(DATE_TRUNC('week', snapshot_date) AS DATE) AS week_begins, MAX(snapshot_date) AS snapshot_date
FROM spans.days GROUP BY week_begins ORDER BY week_begins
