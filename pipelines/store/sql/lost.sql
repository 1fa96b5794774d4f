-- How many rows of {{ table }} there were before, how many were added, changed and removed since, and some removed ids.
WITH gone AS (SELECT {{ key }} FROM {{ before }}.{{ table }} EXCEPT SELECT {{ key }} FROM {{ after }}.{{ table }}),
new AS (SELECT {{ key }} FROM {{ after }}.{{ table }} EXCEPT SELECT {{ key }} FROM {{ before }}.{{ table }}),
other AS (SELECT {{ columns }} FROM {{ after }}.{{ table }} EXCEPT SELECT {{ columns }} FROM {{ before }}.{{ table }})
SELECT
    (SELECT COUNT(*) FROM {{ before }}.{{ table }}),
    (SELECT COUNT(*) FROM new),
    (SELECT COUNT(*) FROM other) - (SELECT COUNT(*) FROM new),
    (SELECT COUNT(*) FROM gone),
    (SELECT LIST_SLICE(LIST_SORT(LIST(DISTINCT {{ parent }})), 1, 5) FROM gone)
