-- users.csv of OneRoster 1.2: the students, and the teachers of active classes. A name that the service states in one
-- piece is cut at its comma (Berg, Anna van den) or else at its last blank. What stands behind a name stays with the family
-- name: a generation (Robert Downey, Jr.), and, behind two words and a comma, a degree (John Smith, M.Ed.).
-- An email that several people share, as siblings may that of a parent, is nobody's username: so who comes to share it, or
-- no longer does, changes all of them.
{% import "_oneroster.sql" as o with context %}
{% set blank = "[\s\p{Z}]" %}
{% set generation = "(?:," ~ blank ~ "*|" ~ blank ~ "+)(?i:jr|sr|ii|iii|iv)\.?" %}
{% set degrees = "(?:," ~ blank ~ "*(?:[BM]\.?(?:A|S|Ed|Sc|Phil|B\.?A)|M\.?(?:D|S\.?W|F\.?A|A\.?T)|J\.?D|Ed\.?[DS]|Ph\.?D|Esq)\.?)+" %}
WITH people AS (
    SELECT
        id, first_name, last_name, name, email, reference_id AS identifier, gone, modified
    FROM {{ o.students() }}
    UNION ALL
    SELECT 'teacher-' || teacher_id, NULL, NULL, name, email, NULL, gone, modified FROM {{ o.teachers() }}
),
emails AS (
    SELECT LOWER(email) AS email, MAX(GREATEST(valid_from, valid_to)) AS moved
    FROM (
        SELECT email, valid_from, valid_to FROM {{ o.versions("students", "student_id") }}
        UNION ALL
        SELECT teacher_email, valid_from, valid_to FROM {{ o.versions("classes", "class_id") }}
    )
    GROUP BY ALL
),
shared AS (
    SELECT
        p.* REPLACE (GREATEST(p.modified, CASE WHEN NOT p.gone THEN e.moved END) AS modified),
        NOT p.gone AND COUNT(*) FILTER (NOT p.gone) OVER (PARTITION BY LOWER(p.email)) > 1 AS is_shared,
        COALESCE(
            NULLIF(REGEXP_EXTRACT(p.name, '^(.+?{{ blank }}.*?)((?:{{ generation }})?{{ degrees }})$', 2), ''),
            REGEXP_EXTRACT(p.name, '^(.+?)({{ generation }})$', 2), ''
        ) AS suffix,
        LEFT(p.name, LENGTH(p.name) - LENGTH(suffix)) AS plain
    FROM people AS p LEFT JOIN emails AS e ON e.email = LOWER(p.email)
),
cut AS (SELECT *, REGEXP_MATCHES(plain, '^[^,]+, *[^, ][^,]*$') AS is_family_first FROM shared)
SELECT
    id AS "sourcedId", {{ o.state("gone", "modified") }}, 'true' AS "enabledUser",
    IF(email IS NULL OR is_shared, id, email) AS username, '' AS "userIds",
    COALESCE(
        first_name,
        IF(
            is_family_first, REGEXP_EXTRACT(plain, ', *(.*)$', 1),
            REGEXP_REPLACE(plain, '{{ blank }}+[^\s\p{Z}]+$', '')
        ),
        'Unknown'
    ) AS "givenName",
    COALESCE(
        last_name,
        IF(is_family_first, REGEXP_EXTRACT(plain, '^[^,]+'), REGEXP_EXTRACT(plain, '[^\s\p{Z}]+$')) || suffix,
        'Unknown'
    ) AS "familyName",
    '' AS "middleName", identifier, email, '' AS sms, '' AS phone, '' AS "agentSourcedIds", '' AS grades, '' AS password,
    '' AS "userMasterIdentifier", '' AS "resourceSourcedIds", '' AS "preferredGivenName", '' AS "preferredMiddleName",
    '' AS "preferredFamilyName", {{ o.school() }} AS "primaryOrgSourcedId", '' AS pronouns
FROM cut
WHERE {{ o.wanted("gone", "modified") }}
ORDER BY id
