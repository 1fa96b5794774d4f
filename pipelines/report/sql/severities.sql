-- For the morning page: how many students to watch have each whole severity, and how many of them newly. Worst first.
SELECT
    LEAST(CAST(FLOOR(severity) AS INTEGER), {{ most }}) AS at_least,
    COUNT(*),
    COUNT(*) FILTER (change = 'newly to watch')
FROM to_watch WHERE severity IS NOT NULL
GROUP BY at_least ORDER BY at_least DESC
