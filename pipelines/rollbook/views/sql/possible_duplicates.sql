-- possible_duplicates: One row per listed student who shares with another what one person alone should have, and what.
-- key: shares, group_number, student_id
-- order: shares, group_number, student_id
--
-- Look before you merge anything: siblings may share a parent's email, and two pupils of one name may begin on one day.
-- Capitals make no difference. Which ids were one person's over time is in student_identities.
--
--   shares             What these students share: reference id, name and registration, or email.
--   group_number       The same for those who share one value; on another night a group may have another number.
--   students           How many students the group has.
--   student_id         Unique student user id.
--   name               Full name.
--   email              Student email address.
--   reference_id       The institution's own student id.
--   registration_date  The day of registration.
WITH marked AS (
    SELECT student_id, 'reference id' AS shares, LOWER(reference_id) AS mark FROM main.students
    UNION ALL
    SELECT student_id, 'name and registration', LOWER(name) || ' ' || registration_date FROM main.students
    UNION ALL
    SELECT student_id, 'email', LOWER(email) FROM main.students
),
shared AS (
    SELECT
        shares, mark, COUNT(*) AS students, ROW_NUMBER() OVER (PARTITION BY shares ORDER BY MIN(student_id)) AS group_number
    FROM marked WHERE mark IS NOT NULL
    GROUP BY shares, mark HAVING COUNT(*) > 1
)
SELECT
    m.shares, g.group_number, g.students, s.student_id, s.name, s.email, s.reference_id, s.registration_date
FROM shared AS g
INNER JOIN marked AS m ON m.shares = g.shares AND m.mark = g.mark
INNER JOIN main.students AS s ON s.student_id = m.student_id
