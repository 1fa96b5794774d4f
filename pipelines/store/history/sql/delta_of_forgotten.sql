-- The records with a run of {{ table.name }} on one day, or on one of its neighbours.
CREATE OR REPLACE TEMP TABLE delta AS
SELECT DISTINCT {{ table.parent_key }} AS id FROM spans.{{ table.name }}
WHERE first_day <= COALESCE($after, $day) AND (last_day IS NULL OR last_day >= COALESCE($before, $day))
