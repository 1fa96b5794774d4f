-- What a day's landings show of one set, as far as it counts. A proven landing that does not show a record states it
-- absent: what the landings before it said of that record no longer counts.
CREATE OR REPLACE TABLE seen AS
WITH given AS (FROM ({{ observed }}) WHERE set_name = $set_name),
shown AS (SELECT DISTINCT id, landing FROM given),
proven AS (SELECT UNNEST(CAST($proven AS BIGINT[])) AS landing),
absent AS (
    SELECT r.id, MAX(p.landing) AS landing
    FROM (SELECT DISTINCT id FROM shown) AS r CROSS JOIN proven AS p
    LEFT JOIN shown AS s ON s.id = r.id AND s.landing = p.landing
    WHERE s.id IS NULL
    GROUP BY r.id
)
SELECT g.*, a.id IS NOT NULL AS was_absent
FROM given AS g LEFT JOIN absent AS a ON a.id = g.id
WHERE a.id IS NULL OR g.landing > a.landing
