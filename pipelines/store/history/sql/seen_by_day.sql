-- What the lake observed of {{ table }}: one row per record and landed day.
SELECT DISTINCT
    {{ parent }} AS id, snapshot_date AS first_day, snapshot_date AS last_day, span_state <> 'mute' AS is_statement
FROM ({{ observations }}) AS o
