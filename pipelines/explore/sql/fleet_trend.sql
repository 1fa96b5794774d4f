-- Explore: all institutions together on each of the last landed days.
SELECT *
FROM (
    SELECT snapshot_date, institutions, students, average_completion_rate, average_score
    FROM main.fleet_daily ORDER BY snapshot_date DESC LIMIT $most
)
ORDER BY snapshot_date
