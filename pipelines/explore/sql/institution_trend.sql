-- Explore: one institution on each of its last landed days.
SELECT *
FROM (
    SELECT snapshot_date, students, average_completion_rate, average_score
    FROM main.institutions_daily
    WHERE institution = $institution
    ORDER BY snapshot_date DESC LIMIT $most
)
ORDER BY snapshot_date
