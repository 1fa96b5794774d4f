-- How many current rows of {{ table }} are added, changed and removed: what is wanted against what was had.
SELECT
    COUNT(*) FILTER (h.{{ first }} IS NULL),
    COUNT(*) FILTER (w.{{ first }} IS NOT NULL AND h.{{ first }} IS NOT NULL AND ({{ differs }})),
    COUNT(*) FILTER (w.{{ first }} IS NULL)
FROM wanted AS w FULL JOIN had AS h ON {{ same }}
