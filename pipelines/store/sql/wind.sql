-- The clock-driven values of $table, from the last day that stated each record.
UPDATE main.$table AS m SET $set_clocks
FROM ($rows) AS s, last_stated AS l
WHERE $same AND l.id = s.$on AND l.day = s.snapshot_date AND ($differs)
