-- What was observed of {{ table }}: one row per record and run of days.
SELECT DISTINCT
    {{ parent }} AS id, first_day, COALESCE(last_day, (SELECT MAX(snapshot_date) FROM spans.days)) AS last_day,
    span_state <> 'mute' AS is_statement
FROM {{ spans }}
