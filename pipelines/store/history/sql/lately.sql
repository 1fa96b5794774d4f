-- The touched keys' versions of {{ table }} from a day on, and of each key the one before.
SELECT * FROM history.{{ table }}
WHERE {{ parent }} IN (FROM touched_{{ table }})
QUALIFY COALESCE(LEAD(valid_from) OVER (PARTITION BY {{ key }} ORDER BY valid_from), $since) >= $since
