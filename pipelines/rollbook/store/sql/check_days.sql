-- How many sampled records' rows in the history of {{ table.name }} differ from the snapshots, per sampled day.
--
-- A record that did not state the table, or was refused, on a day keeps its earlier rows. A record that was stated absent
-- has no rows.
WITH sample_days AS (SELECT UNNEST($days) AS snapshot_date),
seen AS MATERIALIZED (
    SELECT snapshot_date, id, state, table_name FROM ({{ observed }})
    WHERE set_name = '{{ table.set }}' AND (id IS NULL OR {{ some_ids }})
),
stating AS (
    SELECT snapshot_date, id FROM seen
    GROUP BY snapshot_date, id
    HAVING BOOL_OR(state = 'stated') AND NOT BOOL_OR(state = 'not_stated' AND COALESCE(table_name, '') = '{{ table.name }}')
),
stated AS (SELECT snapshot_date, {{ m.names(table.versioned) }} FROM ({{ rows }}) WHERE {{ some }}),
standing AS MATERIALIZED (
    SELECT d.snapshot_date, {{ m.names(table.versioned) }}
    FROM history.{{ table.name }} AS h INNER JOIN sample_days AS d
        ON h.valid_from <= d.snapshot_date AND (h.valid_to IS NULL OR h.valid_to > d.snapshot_date)
    WHERE {{ some }}
),
in_history AS (
    SELECT h.* FROM standing AS h SEMI JOIN stating AS s ON s.snapshot_date = h.snapshot_date AND s.id = h.{{ table.parent_key }}
),
-- What each record last said of itself up to a day, by the runs.
last_said AS (
    SELECT h.snapshot_date, h.{{ table.parent_key }}, ARG_MAX(s.span_state, s.first_day) AS state
    FROM standing AS h INNER JOIN spans.{{ table.name }} AS s
        ON s.{{ table.parent_key }} = h.{{ table.parent_key }} AND s.first_day <= h.snapshot_date
        AND s.span_state <> 'not_stated'
    GROUP BY h.snapshot_date, h.{{ table.parent_key }}
),
absent AS (
    SELECT h.snapshot_date, h.{{ table.parent_key }}
    FROM standing AS h
    INNER JOIN seen AS s ON s.snapshot_date = h.snapshot_date AND s.id = h.{{ table.parent_key }} AND s.state = 'absent'
)
SELECT snapshot_date, COUNT(DISTINCT {{ table.parent_key }}) FROM (
    SELECT
        COALESCE(h.snapshot_date, s.snapshot_date) AS snapshot_date,
        COALESCE(h.{{ table.parent_key }}, s.{{ table.parent_key }}) AS {{ table.parent_key }}
    FROM in_history AS h FULL JOIN stated AS s ON h.snapshot_date = s.snapshot_date AND {{ m.same(table.key, "h", "s") }}
    WHERE h.snapshot_date IS NULL OR s.snapshot_date IS NULL OR {{ m.differ(table.tracked, "h", "s") }}
    UNION ALL
    FROM absent
    UNION ALL
    SELECT snapshot_date, {{ table.parent_key }} FROM last_said WHERE state = 'absent'
)
GROUP BY snapshot_date
ORDER BY snapshot_date
