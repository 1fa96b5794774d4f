-- Each current record's untracked values of {{ table.name }} on the last day that stated them.
SELECT {{ scope.of("s") }}{{ m.names(table.key, "s.") }}, {{ m.names(table.untracked, "s.") }}
FROM ({{ rows }}) AS s INNER JOIN last_stated AS l
    ON {{ scope.same("l", "s") }}l.id = s.{{ table.parent_key }} AND l.day = s.snapshot_date
