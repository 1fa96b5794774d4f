-- Remove the runs of {{ table.name }} that `pieces` replaces.
DELETE FROM spans.{{ table.name }}
WHERE {{ table.parent_key }} IN (SELECT id FROM delta)
    AND first_day <= COALESCE($after, $day)
    AND (last_day IS NULL OR last_day >= COALESCE($before, $day))
