-- transfers: One row per student who left one class and joined another of its course, within three days.
-- key: student_id, left_class_id, left_on, joined_class_id, joined_on
-- tells: changes
--
-- A year's rollover is none: of a class that closes, or that more than half of its students, and {{ small_class }} or more, leave
-- on one day, nobody is transferred.
--
-- The course is that of the class's record while the student was in it, and on the day of joining; without one, the name
-- that the student's record gives. A class that gets another course later changes nothing here.
--
--   student_id          The student's id at the records service.
--   name                The student's full name on the day of joining.
--   course_name         The course, as the student's record names it.
--   left_class_id       The class that the student left.
--   left_class_title    Its name.
--   left_on             The landed day that first showed it.
--   joined_class_id     The class that the student joined.
--   joined_class_title  Its name.
--   joined_on           The landed day that first showed it: up to three days before or after left_on.
WITH leavings AS (
    SELECT DISTINCT class_id, left_on FROM main.enrollment_spans WHERE end_reason = 'left the class'
),
single AS (
    SELECT l.class_id, l.left_on AS snapshot_date
    FROM leavings AS l INNER JOIN main.enrollment_spans AS s
        ON s.class_id = l.class_id AND s.joined_on < l.left_on AND COALESCE(s.left_on >= l.left_on, TRUE)
    GROUP BY l.class_id, l.left_on
    HAVING COUNT(*) FILTER (s.left_on = l.left_on) < {{ small_class }}
        OR 2 * COUNT(*) FILTER (s.left_on = l.left_on) <= COUNT(*)
),
moved AS (
    SELECT e.*, c.course_id
    FROM (
        -- The last day in the class, or the first one.
        SELECT *, snapshot_date - CASE WHEN change = 'left' THEN 1 ELSE 0 END AS in_it_on FROM main.enrollment_changes
    ) AS e
    ASOF LEFT JOIN history.classes AS c ON c.class_id = e.class_id AND c.valid_from <= e.in_it_on
)
SELECT
    j.student_id,
    j.name,
    COALESCE(j.course_name, l.course_name) AS course_name,
    l.class_id AS left_class_id,
    l.class_title AS left_class_title,
    l.snapshot_date AS left_on,
    j.class_id AS joined_class_id,
    j.class_title AS joined_class_title,
    j.snapshot_date AS joined_on
FROM (FROM moved SEMI JOIN single USING (class_id, snapshot_date)) AS l
INNER JOIN moved AS j
    ON j.student_id = l.student_id AND j.class_id <> l.class_id
    AND j.snapshot_date BETWEEN l.snapshot_date - 3 AND l.snapshot_date + 3
WHERE l.change = 'left' AND j.change = 'joined'
    AND CASE
        WHEN l.course_id IS NULL OR j.course_id IS NULL THEN l.course_name = j.course_name
        ELSE l.course_id = j.course_id
    END
ORDER BY j.snapshot_date, j.student_id, l.class_id, j.class_id
