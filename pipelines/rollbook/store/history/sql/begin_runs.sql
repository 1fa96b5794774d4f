-- Begin runs of {{ table.name }} on the newest day: a fast way to replace_runs.sql, since no run follows that day.
UPDATE spans.{{ table.name }} SET last_day = $before
WHERE last_day IS NULL AND {{ table.parent_key }} IN (SELECT id FROM delta);

INSERT INTO spans.{{ table.name }}
SELECT {{ m.names(table.versioned) }}, span_state, $day, NULL
FROM observations AS o SEMI JOIN delta ON delta.id = o.{{ table.parent_key }}
