-- What changed last night?
SELECT table_name, column_name, change, COUNT(*) AS how_often
FROM changes
WHERE snapshot_date = (SELECT MAX(snapshot_date) FROM changes)
GROUP BY ALL
ORDER BY how_often DESC, table_name, column_name LIMIT 12
