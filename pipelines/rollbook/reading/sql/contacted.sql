-- contacted: one row per reason, severity and whether these were spoken to; of the others only those of a day on which
-- somebody of the same reason and severity was.
WITH told AS (
    SELECT
        *,
        CASE {% for least, words in severities %}WHEN severity >= {{ least }} THEN '{{ words }}' {% endfor %}END AS degree,
        UNNEST([{% for reason in reasons %}{% if reason == "any" %}'any'{% else %}CASE WHEN {{ reason }} THEN '{{ reason }}' END{% endif %}{{ ", " if not loop.last }}{% endfor %}]) AS reason
    FROM temp.pairs
),
matched AS (
    SELECT * FROM told
    WHERE reason IS NOT NULL
    QUALIFY BOOL_OR(is_spoken) OVER (PARTITION BY snapshot_date, reason, degree)
)
SELECT
    reason, degree, is_spoken,
    COUNT(DISTINCT student_id) AS students,
    COUNT(*) AS pairs,
    CAST(SUM(done_before) AS BIGINT) AS done_before,
    CAST(SUM(given_before) AS BIGINT) AS given_before,
    CAST(SUM(done_after) AS BIGINT) AS done_after,
    CAST(SUM(given_after) AS BIGINT) AS given_after,
    COUNT(*) FILTER (is_still) AS still
FROM matched
GROUP BY reason, degree, is_spoken
