-- {{ table }}_as_of(day): the rows of {{ table }} as the last snapshot on or before that day had them.
CREATE OR REPLACE MACRO main.{{ table }}_as_of(day) AS TABLE
SELECT {{ columns }} FROM history.{{ table }}
WHERE valid_from <= CAST(day AS DATE) AND (valid_to IS NULL OR valid_to > CAST(day AS DATE))
