-- For the demo: what one night changed, by table and column, the most frequent first.
SELECT table_name, COALESCE(column_name, ''), change, COUNT(*) FROM changes
WHERE snapshot_date = $day
GROUP BY 1, 2, 3
ORDER BY 4 DESC, 1, 2 LIMIT 12
