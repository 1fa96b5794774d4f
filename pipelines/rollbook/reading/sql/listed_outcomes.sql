-- listed_outcomes: one row per student who was ever listed: whether the school's own list has an outcome, and its day.
SELECT
    'all days' AS period, MIN(s.valid_from) AS begins_on,
    COALESCE(MIN(o.on_day), (SELECT MAX(snapshot_date) FROM spans.days)) AS ends_on,
    s.student_id, COUNT(o.on_day) > 0 AS has_outcome
FROM history.students AS s LEFT JOIN temp.outcomes AS o USING (student_id)
WHERE s.is_registered IS DISTINCT FROM 0
GROUP BY s.student_id
