-- The merged days before and after a day.
SELECT MAX(snapshot_date) FILTER (snapshot_date < $day), MIN(snapshot_date) FILTER (snapshot_date > $day)
FROM spans.days
