-- The landed days before and after one, among those the history stands on.
SELECT MAX(snapshot_date) FILTER (snapshot_date < $day), MIN(snapshot_date) FILTER (snapshot_date > $day)
FROM spans.days
