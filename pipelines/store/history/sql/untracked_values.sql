-- The untracked values of {{ table.name }} on the last day that stated each current record.
CREATE OR REPLACE TEMP TABLE untracked_values AS
SELECT {{ m.names(table.key, "s.") }}, {{ m.names(table.untracked, "s.") }}
FROM ({{ rows }}) AS s INNER JOIN last_stated AS l ON l.id = s.{{ table.parent_key }} AND l.day = s.snapshot_date
