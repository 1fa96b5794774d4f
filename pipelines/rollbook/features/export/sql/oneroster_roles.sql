-- roles.csv of OneRoster 1.2: what each user is at the school.
{% import "_oneroster.sql" as o with context %}
WITH people AS (
    SELECT id, 'student' AS role, gone, modified FROM {{ o.students() }}
    UNION ALL
    SELECT 'teacher-' || teacher_id, 'teacher', gone, modified FROM {{ o.teachers() }}
)
SELECT
    'role-' || id AS "sourcedId", {{ o.state("gone", "modified") }}, id AS "userSourcedId", 'primary' AS "roleType", role,
    '' AS "beginDate", '' AS "endDate", {{ o.school() }} AS "orgSourcedId", '' AS "userProfileSourcedId"
FROM people
WHERE {{ o.wanted("gone", "modified") }}
ORDER BY id
