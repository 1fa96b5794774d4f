-- The keys of {{ table }} that one day did not observe, and that were there: whether that day proves them absent has changed.
INSERT INTO touched_{{ table }}
SELECT DISTINCT h.{{ parent }}
FROM history.{{ table }} AS h
WHERE h.valid_from < $day AND (h.valid_to IS NULL OR h.valid_to >= $day)
    AND NOT EXISTS (
        SELECT 1 FROM spans.{{ table }} AS s
        WHERE s.{{ parent }} = h.{{ parent }} AND s.first_day <= $day AND (s.last_day IS NULL OR s.last_day >= $day)
    )
