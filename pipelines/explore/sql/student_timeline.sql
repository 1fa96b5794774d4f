-- Explore: what changed for one student after the first landed day, in words, the newest first.
SELECT snapshot_date, said, COUNT(*) OVER () AS total
FROM main.student_timeline
WHERE student_id = $student_id
ORDER BY snapshot_date DESC, what, said LIMIT $most OFFSET $skip
