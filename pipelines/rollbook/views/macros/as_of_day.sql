-- as_of_day(day): the landed day whose state the macros `..._as_of(day)` return; NULL before the first one.
CREATE OR REPLACE MACRO main.as_of_day(day) AS {{ m.own(version, "(
    SELECT MAX(snapshot_date) FROM spans.days WHERE snapshot_date <= CAST(day AS DATE)
)") }}
