-- contact_pairs: one row per day with a contact and student on the list then who is compared, with the reasons, the work
-- of the two weeks before and after, and whether the student was spoken to.
WITH spoken AS (
    SELECT DISTINCT c.day, c.student_id FROM temp.contacts AS c
    WHERE NOT EXISTS (
        SELECT 1 FROM temp.contacts AS o
        WHERE o.student_id = c.student_id AND o.on_day < c.on_day AND o.on_day >= c.on_day - {{ fortnight }}
    )
),
-- Students who were spoken to in these weeks, but not first on this day, are in neither group.
listed AS (
    SELECT w.*, a.before, a.after, s.student_id IS NOT NULL AS is_spoken
    FROM temp.watching AS w
    INNER JOIN temp.windows AS a ON a.day = w.snapshot_date
    LEFT JOIN spoken AS s ON s.day = w.snapshot_date AND s.student_id = w.student_id
    WHERE s.student_id IS NOT NULL OR NOT EXISTS (
        SELECT 1 FROM temp.contacts AS c
        WHERE c.student_id = w.student_id AND c.on_day BETWEEN a.before AND a.after
    )
),
worked AS (
    SELECT
        l.*,
        m.completed_assignments - b.completed_assignments AS done_before,
        m.total_assignments - b.total_assignments AS given_before,
        n.completed_assignments - m.completed_assignments AS done_after,
        n.total_assignments - m.total_assignments AS given_after
    FROM listed AS l
    INNER JOIN history.student_summaries AS m ON m.student_id = l.student_id AND {{ m.valid_on("m", "l.snapshot_date") }}
    INNER JOIN history.student_summaries AS b ON b.student_id = l.student_id AND {{ m.valid_on("b", "l.before") }}
    INNER JOIN history.student_summaries AS n ON n.student_id = l.student_id AND {{ m.valid_on("n", "l.after") }}
)
-- Where totals fell, they began again.
SELECT w.*, later.student_id IS NOT NULL AS is_still
FROM worked AS w
LEFT JOIN temp.watching AS later ON later.student_id = w.student_id AND later.snapshot_date = w.after
WHERE w.done_before >= 0 AND w.given_before >= 0 AND w.done_after >= 0 AND w.given_after >= 0
