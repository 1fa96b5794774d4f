-- student_timeline: One row per change of a student, in words. The state on the first landed day is not a change.
-- key: snapshot_date, student_id, what, description, class_id (may be NULL)
-- tells: changes
--
-- Filter it by student_id and sort it by snapshot_date. An unknown value is "unknown"; without a scored assignment the
-- score is "none".
--
--   snapshot_date  The landed day that first showed it.
--   student_id     The student's id at the records service.
--   what           The kind: new, gone, back, joined, left, identity (perhaps another person now), or what changed, such
--                  as completion, score, assignments, details.
--   description    What changed, in words.
--   class_id       The class's id, for a change about a class.
--   class_title    Class name, as the student's record gave it then, for a change about a class.
{% import "_identities.sql" as identities with context %}
WITH {{ identities.reused() }},
bounds AS (SELECT MIN(snapshot_date) AS first_day FROM spans.days),
-- The fields whose changes are shown: the kind of change, and its wording.
fields (column_name, what, label, unit, nothing, is_decimal) AS (
    VALUES
    ('completion_rate', 'completion', 'completion', ' %', 'unknown', TRUE),
    ('average_score', 'score', 'score', '', 'none', TRUE),
    ('total_assignments', 'assignments', 'assignments given', '', 'unknown', FALSE),
    ('completed_assignments', 'assignments', 'assignments completed', '', 'unknown', FALSE),
    ('assignment_submission_count', 'assignments', 'assignments submitted', '', 'unknown', FALSE),
    ('assignment_missing_count', 'assignments', 'assignments missing', '', 'unknown', FALSE),
    ('total_assessments', 'assessments', 'assessments given', '', 'unknown', FALSE),
    ('completed_assessments', 'assessments', 'assessments completed', '', 'unknown', FALSE),
    ('total_time_minutes', 'time', 'minutes of learning', '', 'unknown', TRUE),
    ('last_activity_date', 'activity', 'last activity', '', 'unknown', FALSE),
    ('first_login_date', 'login', 'first login', '', 'unknown', FALSE),
    ('has_ever_logged_in', 'login', 'ever logged in', '', 'unknown', FALSE),
    ('email', 'details', 'email address', '', 'unknown', FALSE),
    ('name', 'details', 'name', '', 'unknown', FALSE),
    ('first_name', 'details', 'first name', '', 'unknown', FALSE),
    ('last_name', 'details', 'last name', '', 'unknown', FALSE),
    ('reference_id', 'details', 'reference id', '', 'unknown', FALSE),
    ('registration_date', 'details', 'registration', '', 'unknown', FALSE),
    ('class_title', 'class', 'class', '', 'unknown', FALSE),
    ('course_name', 'class', 'course', '', 'unknown', FALSE)
),
changed AS (
    SELECT c.*, b.first_day
    FROM main.changes AS c CROSS JOIN bounds AS b
    WHERE c.snapshot_date > b.first_day AND c.student_id IS NOT NULL
),
-- Summary and activity tracking may report the same last activity: DISTINCT shows it once.
told AS (
    SELECT DISTINCT
        c.snapshot_date, c.student_id, c.class_id, f.*,
        -- Numbers as people write them: 75, not 75.0.
        CASE WHEN f.is_decimal THEN REGEXP_REPLACE(c.old_value, '\.0$', '') ELSE c.old_value END AS old_value,
        CASE WHEN f.is_decimal THEN REGEXP_REPLACE(c.new_value, '\.0$', '') ELSE c.new_value END AS new_value
    FROM changed AS c INNER JOIN fields AS f USING (column_name)
    WHERE c.change = 'changed'
),
-- First logins: the last that was known before is that there was none.
logins AS (
    SELECT student_id, valid_from
    FROM history.student_activity
    SEMI JOIN (SELECT student_id FROM history.student_activity WHERE NOT has_ever_logged_in) AS n USING (student_id)
    WINDOW same_id AS (PARTITION BY student_id ORDER BY valid_from)
    QUALIFY has_ever_logged_in AND NOT LAG(has_ever_logged_in IGNORE NULLS) OVER same_id
)
SELECT
    snapshot_date,
    student_id,
    CASE change WHEN 'added' THEN 'new' WHEN 'removed' THEN 'gone' ELSE 'back' END AS what,
    CASE change WHEN 'added' THEN 'listed for the first time' WHEN 'removed' THEN 'no longer listed' ELSE 'back' END
        AS description,
    CAST(NULL AS BIGINT) AS class_id,
    CAST(NULL AS VARCHAR) AS class_title
FROM changed
WHERE table_name = 'students' AND change <> 'changed'
UNION ALL
SELECT
    snapshot_date, student_id, change, change || ' ' || COALESCE(class_title, 'class ' || class_id), class_id, class_title
FROM main.enrollment_changes
UNION ALL
SELECT
    t.snapshot_date, t.student_id, t.what,
    CASE
        WHEN t.column_name = 'has_ever_logged_in' AND l.student_id IS NOT NULL THEN 'logged in for the first time'
        ELSE CONCAT(
            t.label,
            CASE WHEN t.column_name = 'course_name' THEN ' of ' || COALESCE(h.class_title, 'class ' || t.class_id) END,
            ' ', COALESCE(t.old_value || t.unit, t.nothing), ' to ', COALESCE(t.new_value || t.unit, t.nothing)
        )
    END,
    t.class_id, h.class_title
FROM told AS t
LEFT JOIN logins AS l ON l.student_id = t.student_id AND l.valid_from = t.snapshot_date
LEFT JOIN history.student_classes AS h
    ON h.student_id = t.student_id AND h.class_id = t.class_id AND h.valid_from = t.snapshot_date
UNION ALL
SELECT valid_from, student_id, 'identity', '{{ identities.words }}', NULL, NULL FROM reused
