-- The records with a run of {{ table.name }} that reaches to one day, or to one of its neighbours.
CREATE OR REPLACE TEMP TABLE delta AS
SELECT DISTINCT {{ table.parent_key }} AS id FROM spans.{{ table.name }}
WHERE first_day <= COALESCE($after, $day) AND (last_day IS NULL OR last_day >= COALESCE($before, $day))
