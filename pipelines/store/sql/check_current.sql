-- How many records have other current rows in {{ table.name }} than open versions in its history; of some records.
WITH current_rows AS (SELECT {{ m.names(table.versioned) }} FROM main.{{ table.name }} WHERE {{ some }}),
open_versions AS (SELECT {{ m.names(table.versioned) }} FROM history.{{ table.name }} WHERE valid_to IS NULL AND {{ some }})
SELECT COUNT(DISTINCT {{ table.parent_key }}) FROM (
    (FROM current_rows EXCEPT ALL FROM open_versions) UNION ALL (FROM open_versions EXCEPT ALL FROM current_rows)
)
