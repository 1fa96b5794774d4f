-- How many records the last landing of one day brought, if it was proven.
SELECT students + classes + slipped FROM ops.syncs
WHERE snapshot_date = $$day AND outcome = 'synced'
QUALIFY ROW_NUMBER() OVER (ORDER BY landing DESC) = 1 AND proven
