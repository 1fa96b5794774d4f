-- academicSessions.csv of OneRoster 1.2: the school year of the newest landed day, and the terms of terms.csv.
{% import "_oneroster.sql" as o with context %}
WITH sessions AS (
    SELECT
        'year-' || ends AS id, ends - 1 || '/' || ends AS title, 'schoolYear' AS type, MAKE_DATE(ends - 1, 8, 1) AS first_day,
        MAKE_DATE(ends, 7, 31) AS last_day, ends
    FROM (SELECT {{ o.year(o.newest()) }} AS ends)
    UNION ALL
    SELECT 'term-' || first_day, name, 'term', first_day, last_day, {{ o.year("last_day") }} FROM main.terms
)
SELECT
    id AS "sourcedId", {{ o.state("FALSE", o.newest()) }}, title, type, first_day AS "startDate", last_day AS "endDate",
    '' AS "parentSourcedId", ends AS "schoolYear"
FROM sessions
{% if since %}
WHERE $since IS NOT NULL
{% endif %}
ORDER BY first_day, id
