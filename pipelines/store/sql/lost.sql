-- How many rows {{ table.name }} had before, how many were added, changed and removed since.
{% set old = before ~ "." ~ table.name %}
{% set new = after ~ "." ~ table.name %}
WITH gone AS (SELECT {{ m.names(table.key) }} FROM {{ old }} EXCEPT SELECT {{ m.names(table.key) }} FROM {{ new }}),
fresh AS (SELECT {{ m.names(table.key) }} FROM {{ new }} EXCEPT SELECT {{ m.names(table.key) }} FROM {{ old }}),
other AS (SELECT {{ m.names(columns) }} FROM {{ new }} EXCEPT SELECT {{ m.names(columns) }} FROM {{ old }})
SELECT
    (SELECT COUNT(*) FROM {{ old }}),
    (SELECT COUNT(*) FROM fresh),
    (SELECT COUNT(*) FROM other) - (SELECT COUNT(*) FROM fresh),
    (SELECT COUNT(*) FROM gone)
