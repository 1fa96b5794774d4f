-- The district's page: undeclared fields that the services send, the most common first.
WITH by_field AS (
    SELECT
        institution, set_name, type,
        CASE WHEN count >= $least THEN field ELSE 'a field of single records' END AS field,
        MIN(snapshot_date) AS since, MAX(snapshot_date) AS last_seen
    FROM ops.drift
    GROUP BY ALL
)
SELECT
    set_name, field, type,
    COUNT(DISTINCT institution) AS institutions,
    ARRAY_TO_STRING(LIST_SORT(LIST(DISTINCT institution))[:5], ', ') AS named,
    MIN(since) AS since, MAX(last_seen) AS last_seen
FROM by_field
GROUP BY set_name, field, type
ORDER BY institutions DESC, set_name, field, type
LIMIT 100
