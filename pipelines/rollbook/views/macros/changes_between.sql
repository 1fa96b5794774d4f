-- changes_between(from_day, to_day): the changes after from_day, up to and including to_day.
CREATE OR REPLACE MACRO main.changes_between(from_day, to_day) AS TABLE
SELECT * FROM main.changes
WHERE snapshot_date > {{ m.own(version, "CAST(from_day AS DATE)") }} AND snapshot_date <= CAST(to_day AS DATE)
