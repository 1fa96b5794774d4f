-- {{ relation }}_as_of(day): the rows of {{ relation }} on the last landed day on or before that day.
CREATE OR REPLACE MACRO main."{{ relation }}_as_of"(day) AS TABLE
SELECT {{ shown }} FROM history."{{ relation }}"
WHERE valid_from <= {{ m.landed(version, "day") }} AND (valid_to IS NULL OR valid_to > CAST(day AS DATE))
