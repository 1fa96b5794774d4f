-- users.csv of OneRoster 1.2: the students, and the teachers of active classes. A name that the service states in one
-- piece is cut at its comma (Berg, Anna van den) or else at its last blank. A comma before a title is none (Berg, Jr.).
-- An email that several people share, as siblings may that of a parent, is nobody's username.
{% import "_oneroster.sql" as o with context %}
WITH people AS (
    SELECT
        id, first_name, last_name, name, email, reference_id AS identifier, gone, modified
    FROM {{ o.students() }}
    UNION ALL
    SELECT 'teacher-' || teacher_id, NULL, NULL, name, email, NULL, gone, modified FROM {{ o.teachers() }}
),
cut AS (
    SELECT
        *,
        REGEXP_MATCHES(name, '^[^,]+, *[^, ][^,]*$')
        AND NOT REGEXP_MATCHES(name, ', *(jr|sr|ii+|iv|phd|ph\.d)\.?$', 'i') AS is_family_first,
        NOT gone AND COUNT(*) FILTER (NOT gone) OVER (PARTITION BY LOWER(email)) > 1 AS is_shared
    FROM people
)
SELECT
    id AS "sourcedId", {{ o.state("gone", "modified") }}, 'true' AS "enabledUser",
    IF(email IS NULL OR is_shared, id, email) AS username, '' AS "userIds",
    COALESCE(
        first_name,
        IF(is_family_first, REGEXP_EXTRACT(name, ', *(.*)$', 1), REGEXP_REPLACE(name, '[\s\p{Z}]+[^\s\p{Z}]+$', '')),
        'Unknown'
    ) AS "givenName",
    COALESCE(
        last_name, IF(is_family_first, REGEXP_EXTRACT(name, '^[^,]+'), REGEXP_EXTRACT(name, '[^\s\p{Z}]+$')), 'Unknown'
    ) AS "familyName",
    '' AS "middleName", identifier, email, '' AS sms, '' AS phone, '' AS "agentSourcedIds", '' AS grades, '' AS password,
    '' AS "userMasterIdentifier", '' AS "resourceSourcedIds", '' AS "preferredGivenName", '' AS "preferredMiddleName",
    '' AS "preferredFamilyName", {{ o.school() }} AS "primaryOrgSourcedId", '' AS pronouns
FROM cut
WHERE {{ o.wanted("gone", "modified") }}
ORDER BY id
