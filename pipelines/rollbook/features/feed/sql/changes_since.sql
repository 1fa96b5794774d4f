-- changes_since(since_epoch, since_number): what became different for readers after that publish.
CREATE OR REPLACE MACRO main.changes_since(since_epoch, since_number) AS TABLE
WITH asked AS (
    SELECT
        {{ m.own(version, "MAX(p.epoch)") }} AS epoch,
        MAX(p.number) AS newest,
        MAX(p.number) FILTER (p.epoch = since_epoch AND p.number = since_number) AS known
    FROM ops.publishes AS p
),
told AS (SELECT a.epoch, f.* FROM ops.feed AS f INNER JOIN asked AS a ON f.number > a.known)
SELECT
    epoch, newest AS number, CAST(NULL AS VARCHAR) AS table_name,
    {% for key in change_keys %}
    CAST(NULL AS BIGINT) AS {{ key }},
    {% endfor %}
    'read everything' AS change, CAST(NULL AS VARCHAR) AS record
FROM asked WHERE known IS NULL
{% for name, key in fed %}
UNION ALL
SELECT
    t.epoch, t.number, t.table_name,
    {% for key in change_keys %}
    t.{{ key }},
    {% endfor %}
    t.change, CASE WHEN r.{{ key[0] }} IS NOT NULL THEN CAST(TO_JSON(r) AS VARCHAR) END
FROM told AS t LEFT JOIN main.{{ name }} AS r ON {{ m.same(key, "r", "t") }}
WHERE t.table_name = '{{ name }}'
{% endfor %}
ORDER BY number, table_name, {{ m.names(change_keys) }}
