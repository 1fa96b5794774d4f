-- The keys of {{ table }} that have a run of days which reaches to one day, or to one of its neighbours.
CREATE OR REPLACE TEMP TABLE delta AS
SELECT DISTINCT {{ parent }} AS id FROM spans.{{ table }}
WHERE first_day <= COALESCE($after, $day) AND (last_day IS NULL OR last_day >= COALESCE($before, $day))
