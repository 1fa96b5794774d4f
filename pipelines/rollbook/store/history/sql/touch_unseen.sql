-- Touch the records of {{ table.name }} that existed on a day but were not observed: it newly proves them absent, or no
-- longer does.
INSERT INTO touched
SELECT DISTINCT h.{{ table.parent_key }}
FROM history.{{ table.name }} AS h
WHERE h.valid_from < $day AND (h.valid_to IS NULL OR h.valid_to >= $day)
    AND NOT EXISTS (
        SELECT 1 FROM spans.{{ table.name }} AS s
        WHERE s.{{ table.parent_key }} = h.{{ table.parent_key }}
            AND s.first_day <= $day AND (s.last_day IS NULL OR s.last_day >= $day)
    )
