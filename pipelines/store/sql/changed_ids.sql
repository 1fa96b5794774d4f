-- The records that state other rows of {{ table }} than are current: rows more, rows less, rows with another value.
WITH speaking AS (
    SELECT id FROM observed WHERE set_name = $set_name AND state = 'stated'
    EXCEPT
    SELECT id FROM observed WHERE set_name = $set_name AND state = 'silent' AND table_name = $table_name
),
new AS (SELECT {{ columns }} FROM {{ new }}),
known AS (SELECT {{ columns }} FROM {{ current }} WHERE {{ parent }} IN (SELECT id FROM speaking))
SELECT {{ parent }} FROM (FROM new EXCEPT FROM known)
UNION
SELECT {{ parent }} FROM (FROM known EXCEPT FROM new)
