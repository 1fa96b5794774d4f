-- classes.csv of OneRoster 1.2: the active classes.
{% import "_oneroster.sql" as o with context %}
SELECT
    'class-' || class_id AS "sourcedId", {{ o.state("gone", "modified") }}, class_title AS title, '' AS grades,
    {{ o.course() }} AS "courseSourcedId", class_code AS "classCode", 'scheduled' AS "classType", class_room AS location,
    {{ o.school() }} AS "schoolSourcedId", {{ o.sessions() }} AS "termSourcedIds", '' AS subjects, '' AS "subjectCodes",
    '' AS periods
FROM {{ o.classes() }}
WHERE {{ o.wanted("gone", "modified") }}
ORDER BY class_id
