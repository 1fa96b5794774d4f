-- The records that stated an empty list of {{ table }}, appended to observations.sql.
UNION ALL
SELECT {{ nothing }}, 'empty', o.snapshot_date
FROM ({{ observed }}) AS o
LEFT JOIN ({{ observed }}) AS q
    ON q.set_name = o.set_name AND q.id = o.id AND q.snapshot_date = o.snapshot_date
    AND q.state = 'silent' AND q.table_name = '{{ table }}'
LEFT JOIN (SELECT DISTINCT {{ parent }} AS id, snapshot_date FROM ({{ rows }})) AS r
    ON r.id = o.id AND r.snapshot_date = o.snapshot_date
WHERE o.set_name = '{{ set }}' AND o.state = 'stated' AND q.id IS NULL AND r.id IS NULL
