-- academicSessions.csv of OneRoster 1.2: the terms of terms.csv, their school years, and that of the newest landed day. A
-- school year that is neither any more was one on the day since which the changes are asked for.
{% import "_oneroster.sql" as o with context %}
WITH years AS (
    SELECT {{ o.year(o.newest()) }} AS ends, FALSE AS gone
    UNION
    SELECT {{ o.year("last_day") }}, FALSE FROM main.terms
),
all_years AS (
    FROM years
    {% if since %}
    UNION ALL
    SELECT DISTINCT {{ o.year("snapshot_date") }} AS ends, TRUE FROM spans.days
    WHERE snapshot_date >= (SELECT MAX(snapshot_date) FROM spans.days WHERE snapshot_date <= $since)
        AND ends NOT IN (SELECT ends FROM years)
    {% endif %}
),
sessions AS (
    SELECT
        'year-' || ends AS id, ends - 1 || '/' || ends AS title, 'schoolYear' AS type, MAKE_DATE(ends - 1, 8, 1) AS first_day,
        MAKE_DATE(ends, 7, 31) AS last_day, '' AS parent, ends, gone
    FROM all_years
    UNION ALL
    SELECT
        'term-' || first_day, name, 'term', first_day, last_day, 'year-' || {{ o.year("last_day") }},
        {{ o.year("last_day") }}, FALSE
    FROM main.terms
)
SELECT
    id AS "sourcedId", {{ o.state("gone", o.newest()) }}, title, type, first_day AS "startDate", last_day AS "endDate",
    parent AS "parentSourcedId", ends AS "schoolYear"
FROM sessions
ORDER BY first_day, id
