-- {{ table.name }}_as_of(day): the rows of {{ table.name }} on the last landed day on or before that day.
CREATE OR REPLACE MACRO main.{{ table.name }}_as_of(day) AS TABLE
SELECT {{ shown }} FROM history.{{ table.name }}
WHERE valid_from <= {{ m.landed(version, "day") }} AND (valid_to IS NULL OR valid_to > CAST(day AS DATE))
