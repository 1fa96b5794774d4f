-- The untracked values of {{ table.name }} on the days of `last_stated`.
SELECT {{ m.names(table.key, "s.") }}, {{ m.names(table.untracked, "s.") }}
FROM ({{ rows }}) AS s INNER JOIN last_stated AS l ON l.id = s.{{ table.parent_key }} AND l.day = s.snapshot_date
