-- main.changes of {{ table }}: one row for each field that changed, and one each for added, removed and returned.
WITH versions AS (
    SELECT
        h.*,
        LAG(valid_to) OVER w AS before_to, LAG(valid_from) OVER w AS before_from, LEAD(valid_from) OVER w AS after_from,
        {{ previous }}
    FROM ({{ history }}) AS h
    WINDOW w AS (PARTITION BY {{ key }} ORDER BY valid_from)
)
SELECT valid_from AS snapshot_date, '{{ table }}' AS table_name, {{ student_id }} AS student_id, {{ class_id }} AS class_id,
    CASE WHEN before_from IS NULL THEN 'added' ELSE 'returned' END AS change,
    CAST(NULL AS VARCHAR) AS column_name, CAST(NULL AS VARCHAR) AS old_value, CAST(NULL AS VARCHAR) AS new_value
FROM versions WHERE before_from IS NULL OR before_to < valid_from
UNION ALL
SELECT valid_to, '{{ table }}', {{ student_id }}, {{ class_id }}, 'removed', NULL, NULL, NULL
FROM versions WHERE valid_to IS NOT NULL AND (after_from IS NULL OR after_from > valid_to)
{{ fields }}
