-- The runs of {{ table }}'s touched keys since the last statement before a day. What a key stated earlier still stands.
CREATE OR REPLACE TEMP TABLE recent AS
WITH reach AS (
    SELECT t.id, COALESCE(MAX(s.first_day), $since) AS first_day
    FROM touched_{{ table }} AS t
    LEFT JOIN spans.{{ table }} AS s ON s.{{ parent }} = t.id AND s.first_day < $since AND s.span_state <> 'mute'
    GROUP BY t.id
)
SELECT s.* FROM spans.{{ table }} AS s INNER JOIN reach AS r ON r.id = s.{{ parent }} AND s.first_day >= r.first_day
