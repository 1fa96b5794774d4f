-- The clock-driven values of {{ table }} on the last day that stated each current record.
CREATE OR REPLACE TEMP TABLE clocks AS
SELECT {{ key }}, {{ clocks }}
FROM ({{ rows }}) AS s INNER JOIN last_stated AS l ON l.id = s.{{ parent }} AND l.day = s.snapshot_date
