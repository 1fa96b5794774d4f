-- How many rows {{ table.name }} had before, how many were added, changed and removed since, and changed in more than
-- measures.
{% set old = before ~ "." ~ table.name %}
{% set new = after ~ "." ~ table.name %}
WITH gone AS (SELECT {{ m.names(table.key) }} FROM {{ old }} EXCEPT SELECT {{ m.names(table.key) }} FROM {{ new }}),
fresh AS (SELECT {{ m.names(table.key) }} FROM {{ new }} EXCEPT SELECT {{ m.names(table.key) }} FROM {{ old }}),
other AS (SELECT {{ m.names(columns) }} FROM {{ new }} EXCEPT SELECT {{ m.names(columns) }} FROM {{ old }}),
{% set steady = columns | rejectattr("measure") | list %}
altered AS (SELECT {{ m.names(steady) }} FROM {{ new }} EXCEPT SELECT {{ m.names(steady) }} FROM {{ old }})
SELECT
    (SELECT COUNT(*) FROM {{ old }}),
    (SELECT COUNT(*) FROM fresh),
    (SELECT COUNT(*) FROM other) - (SELECT COUNT(*) FROM fresh),
    (SELECT COUNT(*) FROM gone),
    (SELECT COUNT(*) FROM altered) - (SELECT COUNT(*) FROM fresh)
