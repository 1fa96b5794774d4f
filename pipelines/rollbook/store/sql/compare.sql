-- How many current rows of {{ table.name }} a new day adds, changes and removes, and changes in more than measures.
--
-- Most rows are unchanged; only the others are looked up among the day's observations.
WITH other AS (
    SELECT
        COALESCE(n.{{ table.parent_key }}, c.{{ table.parent_key }}) AS id,
        c.{{ table.parent_key }} IS NULL AS is_added,
        n.{{ table.parent_key }} IS NOT NULL AND c.{{ table.parent_key }} IS NOT NULL AS is_changed,
        {{ m.differ(tracked | rejectattr("measure"), "n", "c") }} AS is_altered,
        n.{{ table.parent_key }} IS NULL AS is_gone
    FROM {{ new }} AS n FULL JOIN {{ current }} AS c ON {{ m.same(table.key, "n", "c") }}
    WHERE n.{{ table.parent_key }} IS NULL OR c.{{ table.parent_key }} IS NULL OR {{ m.differ(tracked, "n", "c") }}
),
seen AS (
    SELECT id, BOOL_OR({{ m.says_nothing("o", table) }}) AS says_nothing
    FROM {{ observed }} AS o SEMI JOIN other USING (id)
    WHERE set_name = '{{ table.set }}'
    GROUP BY id
),
evaluated AS (
    SELECT
        o.*,
        -- As in the history: a row goes if its record is stated absent, or states the table without it.
        o.is_gone AND s.id IS NOT NULL AND NOT s.says_nothing AS is_removed
    FROM other AS o LEFT JOIN seen AS s USING (id)
)
SELECT
    (SELECT COUNT(*) FROM {{ current }}),
    COUNT(*) FILTER (is_added), COUNT(*) FILTER (is_changed), COUNT(*) FILTER (is_removed),
    COUNT(*) FILTER (is_changed AND is_altered)
FROM evaluated
