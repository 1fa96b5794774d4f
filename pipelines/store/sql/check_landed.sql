-- How many distinct records a day's landing has, if it was proven: all ids of a proven walk are readable.
SELECT SUM(received - repeated + slipped) FROM ops.sync_sets
WHERE snapshot_date = $day AND landing = $landing
HAVING BOOL_AND(proven)
