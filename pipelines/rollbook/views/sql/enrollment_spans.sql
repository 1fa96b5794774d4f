-- enrollment_spans: One row per unbroken period of a student in a class: since when, until when, and why it ended.
-- key: student_id, class_id, joined_on
-- tells: periods
--
--   student_id       The student's id at the records service.
--   name             The student's full name at the end of the period.
--   class_id         The class's id at the records service.
--   class_title      Class name, as the student's record last gave it.
--   course_name      Course name, as the student's record last gave it.
--   joined_on        The first landed day of the period.
--   is_from_before   Whether joined_on is the first landed day of all: then the period may have begun earlier.
--   left_on          The first landed day without the student in the class; NULL = still in the class.
--   membership_days  Days from joined_on to the day before left_on, or to the newest landed day.
--   end_reason       left the institution, class closed (no longer active or listed), or left the class; NULL = still in it.
WITH versions AS (
    SELECT *, LAG(valid_to) OVER w AS before_to
    FROM history.student_classes
    WINDOW w AS (PARTITION BY student_id, class_id ORDER BY valid_from)
),
numbered AS (
    SELECT *, COUNT(*) FILTER (before_to IS NULL OR before_to < valid_from) OVER w AS number
    FROM versions
    WINDOW w AS (PARTITION BY student_id, class_id ORDER BY valid_from)
),
bounds AS (SELECT MIN(snapshot_date) AS first_day, MAX(snapshot_date) AS newest FROM spans.days),
members AS (
    SELECT
        student_id, class_id,
        ARG_MAX(class_title, valid_from) AS class_title,
        ARG_MAX(course_name, valid_from) AS course_name,
        MIN(valid_from) AS joined_on,
        CASE WHEN COUNT(valid_to) = COUNT(*) THEN MAX(valid_to) END AS left_on
    FROM numbered
    GROUP BY student_id, class_id, number
),
ended AS (SELECT m.*, b.*, COALESCE(m.left_on, b.newest) AS seen_on FROM members AS m CROSS JOIN bounds AS b)
SELECT
    e.student_id,
    s.name,
    e.class_id,
    e.class_title,
    e.course_name,
    e.joined_on,
    e.joined_on = e.first_day AS is_from_before,
    e.left_on,
    COALESCE(e.left_on, e.newest + 1) - e.joined_on AS membership_days,
    CASE
        WHEN e.left_on IS NULL THEN NULL
        WHEN s.valid_to <= e.left_on THEN 'left the institution'
        WHEN c.valid_to <= e.left_on OR c.class_status <> 1 THEN 'class closed'
        ELSE 'left the class'
    END AS end_reason
FROM ended AS e
ASOF LEFT JOIN history.students AS s ON s.student_id = e.student_id AND s.valid_from <= e.seen_on
ASOF LEFT JOIN history.classes AS c ON c.class_id = e.class_id AND c.valid_from <= e.seen_on
ORDER BY e.joined_on, e.class_id, e.student_id
