-- term_ends: one row per term that has ended, or for all landed days, and student listed on its last landed day.
WITH ended AS (
    SELECT t.name AS period, t.first_day AS begins_on, MAX(d.snapshot_date) AS ends_on
    FROM main.terms AS t INNER JOIN spans.days AS d ON d.snapshot_date BETWEEN t.first_day AND t.last_day
    WHERE t.last_day <= (SELECT MAX(snapshot_date) FROM spans.days)
    GROUP BY t.name, t.first_day
),
periods AS (
    FROM ended
    UNION ALL
    SELECT 'all days', MIN(snapshot_date), MAX(snapshot_date) FROM spans.days WHERE NOT EXISTS (FROM ended)
)
SELECT
    p.*, s.student_id,
    EXISTS (SELECT 1 FROM temp.below AS b WHERE b.student_id = s.student_id AND b.day = p.ends_on) AS has_outcome
FROM periods AS p INNER JOIN history.students AS s
    ON {{ m.valid_on("s", "p.ends_on") }} AND s.is_registered IS DISTINCT FROM 0
