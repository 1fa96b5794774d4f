-- For the morning page: students to watch per whole severity, all and newly, worst first.
SELECT
    LEAST(CAST(FLOOR(severity) AS INTEGER), {{ most }}) AS at_least,
    COUNT(*),
    COUNT(*) FILTER (change = 'newly to watch')
FROM to_watch WHERE severity IS NOT NULL
GROUP BY at_least ORDER BY at_least DESC
