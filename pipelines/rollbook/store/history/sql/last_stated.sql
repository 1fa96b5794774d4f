-- The last landed day on which each current record stated {{ table.name }}.
WITH newest AS (SELECT {{ scope.id }}MAX(snapshot_date) AS newest_day FROM spans.days{{ scope.grouped }})
SELECT {{ scope.of("s") }}s.{{ table.parent_key }} AS id, MAX(COALESCE(s.last_day, newest.newest_day)) AS day
FROM spans.{{ table.name }} AS s
SEMI JOIN {{ listed }} AS l ON {{ scope.same("l", "s") }}l.{{ table.parent_key }} = s.{{ table.parent_key }}
{{ scope.beside("newest", "s") }}
WHERE s.span_state = 'stated'
GROUP BY {{ scope.of("s") }}s.{{ table.parent_key }}
