-- changes_between(from_day, to_day): what changed after the first day, up to and with the second.
CREATE OR REPLACE MACRO main.changes_between(from_day, to_day) AS TABLE
SELECT * FROM main.changes
WHERE snapshot_date > {{ m.own(version, "CAST(from_day AS DATE)") }} AND snapshot_date <= CAST(to_day AS DATE)
