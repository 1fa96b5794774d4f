-- orgs.csv of OneRoster 1.2: the school.
{% import "_oneroster.sql" as o with context %}
SELECT
    'school-' || school_id AS "sourcedId", {{ o.state("gone", "modified") }}, school_name AS name, 'school' AS type,
    school_key AS identifier, '' AS "parentSourcedId"
FROM {{ o.latest("institution", "school_id") }}
WHERE {{ o.wanted("gone", "modified") }}
ORDER BY school_id
