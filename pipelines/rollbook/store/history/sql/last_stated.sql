-- The last landed day on which each current record stated {{ table.name }}.
WITH newest AS (SELECT MAX(snapshot_date) AS newest_day FROM spans.days)
SELECT s.{{ table.parent_key }} AS id, MAX(COALESCE(s.last_day, newest.newest_day)) AS day
FROM spans.{{ table.name }} AS s
SEMI JOIN {{ listed }} AS l ON l.{{ table.parent_key }} = s.{{ table.parent_key }}
CROSS JOIN newest
WHERE s.span_state = 'stated'
GROUP BY s.{{ table.parent_key }}
