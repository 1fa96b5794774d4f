-- Takes out the spans of {{ table }} that `pieces` stands for anew.
DELETE FROM spans.{{ table }}
WHERE {{ parent }} IN (SELECT id FROM delta)
    AND first_day <= COALESCE($after, $day)
    AND (last_day IS NULL OR last_day >= COALESCE($before, $day))
