-- How many records have other current rows in {{ table }} than open versions in its history; of some records.
WITH current_rows AS (SELECT {{ columns }} FROM main.{{ table }} WHERE {{ some }}),
open_versions AS (SELECT {{ columns }} FROM history.{{ table }} WHERE valid_to IS NULL AND {{ some }})
SELECT COUNT(DISTINCT {{ parent }}) FROM (
    (FROM current_rows EXCEPT ALL FROM open_versions) UNION ALL (FROM open_versions EXCEPT ALL FROM current_rows)
)
