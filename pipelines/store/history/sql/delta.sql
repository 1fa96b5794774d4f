-- The keys of {{ table }} that state otherwise on one day than the history has it.
CREATE OR REPLACE TEMP TABLE delta AS
WITH old AS (
    SELECT * FROM spans.{{ table }} WHERE first_day <= $day AND (last_day IS NULL OR last_day >= $day)
)
SELECT DISTINCT COALESCE(n.{{ parent }}, o.{{ parent }}) AS id
FROM ({{ observations }}) AS n FULL JOIN old AS o ON {{ same }}
WHERE n.{{ parent }} IS NULL OR o.{{ parent }} IS NULL OR n.span_state <> o.span_state{{ differs }}
