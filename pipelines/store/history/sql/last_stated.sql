-- The last landed day on which each record that is current stated {{ table }}.
CREATE OR REPLACE TEMP TABLE last_stated AS
SELECT {{ parent }} AS id, MAX(COALESCE(last_day, (SELECT MAX(snapshot_date) FROM spans.days))) AS day
FROM spans.{{ table }} SEMI JOIN main.{{ table }} USING ({{ parent }})
WHERE span_state = 'stated'
GROUP BY {{ parent }}
