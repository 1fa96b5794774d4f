-- How many different records one landing of a day brought, if it was proven: all ids of a proven walk can be read.
SELECT SUM(received - repeated + slipped) FROM ops.sync_sets
WHERE snapshot_date = $day AND landing = $landing
HAVING BOOL_AND(proven)
