-- What a day's landings show of one set, as far as it counts. A landing may state a record absent: what the landings
-- before it said of that record no longer counts.
CREATE OR REPLACE TABLE seen AS
WITH given AS (FROM ({{ observed }}) WHERE set_name = $set_name),
gone AS (SELECT id, MAX(landing) AS landing FROM absent WHERE set_name = $set_name GROUP BY id)
SELECT g.*, a.id IS NOT NULL AS was_absent
FROM given AS g LEFT JOIN gone AS a ON a.id = g.id
WHERE a.id IS NULL OR g.landing > a.landing
