-- Recompute the touched records' history of {{ table.name }} from a day on; earlier versions and changes stay.
--
-- It is read from their last statement before the day: that one is still valid on the day.
{% set runs = "recent" %}
{% set touched = True %}
{% set of_touched %}{{ table.parent_key }} IN (SELECT id FROM touched){% endset %}
CREATE OR REPLACE TEMP TABLE folded AS
WITH reach AS (
    SELECT t.id, COALESCE(MAX(s.first_day), $since) AS first_day
    FROM touched AS t
    LEFT JOIN spans.{{ table.name }} AS s
        ON s.{{ table.parent_key }} = t.id AND s.first_day < $since AND s.span_state <> 'not_stated'
    GROUP BY t.id
),
recent AS (
    SELECT s.*
    FROM spans.{{ table.name }} AS s
    INNER JOIN reach AS r ON r.id = s.{{ table.parent_key }} AND s.first_day >= r.first_day
)
SELECT * FROM (
{% include "definition.sql" %}

);

DELETE FROM history.{{ table.name }} WHERE valid_from >= $since AND {{ of_touched }};

UPDATE history.{{ table.name }} AS h SET valid_to = f.valid_to
FROM folded AS f
WHERE {{ m.same(table.key, "h", "f") }} AND f.valid_from < $since AND h.valid_from < $since
    AND (h.valid_to IS NULL OR h.valid_to >= $since) AND h.valid_to IS DISTINCT FROM f.valid_to;

INSERT INTO history.{{ table.name }} FROM folded WHERE valid_from >= $since;

DELETE FROM main.changes
WHERE table_name = '{{ table.name }}' AND snapshot_date >= $since AND {{ of_touched }};

INSERT INTO main.changes
{% include "changes.sql" %}

