-- Since when a row of {{ table.name }}, or one value of it, was as it was on a day; until when (exclusive); and the
-- landed day that stated it. A row that was removed before that day was last there `until` then.
WITH versions AS (
    SELECT valid_from, valid_to, {{ "NULL" if untracked else column or "valid_from" }} AS value
    FROM history.{{ table.name }}
    WHERE {% for k in table.key %}{{ k }} = $key[{{ loop.index }}]{{ " AND " if not loop.last }}{% endfor %}

),
marked AS (
    SELECT
        *,
        CASE
            WHEN LAG(valid_to) OVER w = valid_from AND LAG(value) OVER w IS NOT DISTINCT FROM value THEN 0 ELSE 1
        END AS starts
    FROM versions WINDOW w AS (ORDER BY valid_from)
),
numbered AS (SELECT *, SUM(starts) OVER (ORDER BY valid_from ROWS UNBOUNDED PRECEDING) AS run FROM marked),
runs AS (
    SELECT MIN(valid_from) AS since, CASE WHEN COUNT(valid_to) = COUNT(*) THEN MAX(valid_to) END AS until
    FROM numbered GROUP BY run
),
days AS (SELECT MAX(snapshot_date) AS newest FROM spans.days WHERE snapshot_date <= $on)
SELECT
    since, until, until <= $on IS TRUE AS is_removed,
    CASE
        WHEN until <= $on THEN until
        {% if untracked %}
        ELSE (
            SELECT MAX(LEAST(COALESCE(last_day, newest), newest)) FROM spans.{{ table.name }}, days
            WHERE {{ table.parent_key }} = $key[1] AND span_state = 'stated' AND first_day <= newest
        )
        {% else %}
        ELSE since
        {% endif %}
    END AS day
FROM runs WHERE since <= $on
ORDER BY since DESC LIMIT 1
