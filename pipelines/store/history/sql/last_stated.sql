-- The last landed day on which each current record stated {{ table.name }}.
CREATE OR REPLACE TEMP TABLE last_stated AS
SELECT {{ table.parent_key }} AS id, MAX(COALESCE(last_day, (SELECT MAX(snapshot_date) FROM spans.days))) AS day
FROM spans.{{ table.name }} SEMI JOIN main.{{ table.name }} USING ({{ table.parent_key }})
WHERE span_state = 'stated'
GROUP BY {{ table.parent_key }}
