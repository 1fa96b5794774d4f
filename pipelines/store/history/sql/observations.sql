-- What every record stated of {{ table }}, one landed day a row (several for a list): its rows, that it has none, or no statement.
SELECT {{ columns }}, 'stated' AS span_state, t.snapshot_date FROM ({{ rows }}) AS t
UNION ALL
SELECT {{ nothing }}, 'mute', o.snapshot_date
FROM ({{ observed }}) AS o
WHERE o.set_name = '{{ set }}' AND (o.state = 'rejected' OR (o.state = 'silent' AND o.table_name = '{{ table }}'))
{{ empty_lists }}
