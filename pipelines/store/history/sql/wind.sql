-- Brings the clock-driven values of the current rows of {{ table }} up to these.
--
-- From a table, not from the query that makes it: an update whose rows come as they lie in the file takes a tenth of
-- the time.
UPDATE main.{{ table }} AS m SET {{ set_clocks }}
FROM clocks AS s
WHERE {{ same }} AND ({{ differs }})
