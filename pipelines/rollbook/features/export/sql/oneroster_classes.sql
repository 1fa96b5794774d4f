-- classes.csv of OneRoster 1.2: the active classes. Each has the session of the newest landed day, so all change with it.
{% import "_oneroster.sql" as o with context %}
WITH here AS (
    SELECT c.* REPLACE (GREATEST(c.modified, CASE WHEN NOT c.gone THEN s.since END) AS modified), s.session
    FROM {{ o.classes() }} AS c CROSS JOIN {{ o.session() }} AS s
)
SELECT
    'class-' || class_id AS "sourcedId", {{ o.state("gone", "modified") }}, class_title AS title, '' AS grades,
    {{ o.course() }} AS "courseSourcedId", class_code AS "classCode", 'scheduled' AS "classType", class_room AS location,
    {{ o.school() }} AS "schoolSourcedId", session AS "termSourcedIds", '' AS subjects, '' AS "subjectCodes", '' AS periods
FROM here
WHERE {{ o.wanted("gone", "modified") }}
ORDER BY class_id
