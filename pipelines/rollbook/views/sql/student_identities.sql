-- student_identities: One row per student id and person: which ids are one person's over time, and which had several.
-- key: student_id, first_day
-- tells: periods
--
-- Follow a pupil across a change of id: join a daily view with this one by student_id and
-- `snapshot_date BETWEEN first_day AND COALESCE(last_day, snapshot_date)`, and group by person.
--
-- Two ids are linked if they ever had the same reference id, or the same email and name; what more than four ids share
-- links none of them: it may stand for "none". Siblings may share an email, so look before you rely on a link: it is a guess. Neither `rollbook
-- subject` nor `rollbook erase` follows it.
--
--   student_id     The student's id at the records service.
--   person         Who it is: the id that was first theirs; with "since" and a day, if that id was another person's before.
--   first_day      The first landed day on which the id was this person's.
--   last_day       The last day on which it was; NULL while it is listed.
--   name           Full name, the latest.
--   email          Student email address, the latest.
--   reference_id   The institution's own student id, the latest.
--   is_reused      Whether the id was another person's before first_day: name, email and reference id changed at once.
--   linked_by      What it shares with another of the person's ids: "reference id", "email and name", or both; else NULL.
--   ids            How many ids the person has.
{% import "_identities.sql" as identities with context %}
WITH RECURSIVE {{ identities.reused() }},
numbered AS (
    SELECT
        h.student_id, h.valid_from, h.valid_to, h.name, h.email, h.reference_id,
        COUNT(r.valid_from) OVER (PARTITION BY h.student_id ORDER BY h.valid_from) AS number
    FROM history.students AS h LEFT JOIN reused AS r USING (student_id, valid_from)
),
lives AS (
    SELECT
        student_id, number,
        student_id || CASE WHEN number > 0 THEN ' since ' || MIN(valid_from) ELSE '' END AS own,
        MIN(valid_from) AS first_day,
        NULLIF(MAX(COALESCE(valid_to, DATE 'infinity')), DATE 'infinity') - 1 AS last_day,
        ARG_MAX_NULL(name, valid_from) AS name,
        ARG_MAX_NULL(email, valid_from) AS email,
        ARG_MAX_NULL(reference_id, valid_from) AS reference_id
    FROM numbered GROUP BY student_id, number
),
known AS (
    SELECT DISTINCT student_id, number, 'reference id' AS kind, LOWER(reference_id) AS mark
    FROM numbered WHERE reference_id IS NOT NULL
    UNION ALL
    SELECT DISTINCT student_id, number, 'email and name', LOWER(email) || ' ' || LOWER(name)
    FROM numbered WHERE email IS NOT NULL
),
shared AS (
    SELECT kind, mark FROM known GROUP BY kind, mark HAVING COUNT(*) BETWEEN 2 AND 4
),
marked AS MATERIALIZED (SELECT k.* FROM known AS k SEMI JOIN shared USING (kind, mark)),
reached AS (
    SELECT DISTINCT student_id, number, student_id AS other_id, number AS other_number FROM marked
    UNION
    SELECT r.student_id, r.number, b.student_id, b.number
    FROM reached AS r
    INNER JOIN marked AS a
        ON a.student_id = r.other_id AND a.number = r.other_number
    INNER JOIN marked AS b ON b.kind = a.kind AND b.mark = a.mark
),
persons AS (
    SELECT
        r.student_id, r.number,
        ARG_MIN(l.own, (l.first_day, l.student_id)) AS person, COUNT(*) AS ids
    FROM reached AS r
    INNER JOIN lives AS l ON l.student_id = r.other_id AND l.number = r.other_number
    GROUP BY r.student_id, r.number
),
links AS (
    SELECT student_id, number, STRING_AGG(DISTINCT kind, ', ' ORDER BY kind DESC) AS linked_by
    FROM marked GROUP BY student_id, number
)
SELECT
    l.student_id,
    COALESCE(p.person, l.own) AS person,
    l.first_day,
    l.last_day,
    l.name,
    l.email,
    l.reference_id,
    l.number > 0 AS is_reused,
    k.linked_by,
    COALESCE(p.ids, 1) AS ids
FROM lives AS l
LEFT JOIN persons AS p USING (student_id, number)
LEFT JOIN links AS k USING (student_id, number)
ORDER BY l.student_id, l.first_day
