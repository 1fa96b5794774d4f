-- How many different records one landing of a day brought, if it was proven: all ids of a proven walk can be read.
SELECT students + classes - repeated + slipped FROM ops.syncs
WHERE snapshot_date = $day AND landing = $landing AND proven
