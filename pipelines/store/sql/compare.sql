-- How many rows of {{ table }} a new day adds, changes and removes against what is current, and a few of the ids.
--
-- Most rows are as they were; only the rest is looked for among what the day observed.
WITH other AS (
    SELECT
        COALESCE(n.{{ parent }}, c.{{ parent }}) AS id,
        c.{{ parent }} IS NULL AS is_added,
        n.{{ parent }} IS NOT NULL AND c.{{ parent }} IS NOT NULL AS is_changed,
        n.{{ parent }} IS NULL AS is_gone
    FROM {{ new }} AS n FULL JOIN {{ current }} AS c ON {{ same }}
    WHERE n.{{ parent }} IS NULL OR c.{{ parent }} IS NULL OR ({{ differs }})
),
said AS (
    SELECT
        id, BOOL_OR(state = 'stated') AS is_stated,
        BOOL_OR(state = 'silent' AND table_name = $table_name) AS is_silent
    FROM observed SEMI JOIN other USING (id)
    WHERE set_name = $set_name
    GROUP BY id
),
proven AS (SELECT COUNT(*) > 0 AS is_proven FROM observed WHERE set_name = $set_name AND state = 'proven'),
judged AS (
    SELECT
        o.*,
        o.is_gone AND CASE
            WHEN s.id IS NULL THEN (SELECT is_proven FROM proven)
            ELSE s.is_stated AND s.is_silent IS NOT TRUE
        END AS is_removed
    FROM other AS o LEFT JOIN said AS s USING (id)
)
SELECT
    (SELECT COUNT(*) FROM {{ current }}),
    COUNT(*) FILTER (is_added), COUNT(*) FILTER (is_changed), COUNT(*) FILTER (is_removed),
    LIST_SLICE(LIST_SORT(LIST(DISTINCT id) FILTER (is_removed OR is_changed)), 1, 5)
FROM judged
