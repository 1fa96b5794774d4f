-- transfers: One row per student who left one class and joined another of its course, within three days.
-- key: student_id, left_class_id, left_on, joined_class_id, joined_on
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
WITH moved AS (
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
FROM moved AS l
INNER JOIN moved AS j
    ON j.student_id = l.student_id AND j.class_id <> l.class_id
    AND j.snapshot_date BETWEEN l.snapshot_date - 3 AND l.snapshot_date + 3
WHERE l.change = 'left' AND j.change = 'joined'
    AND CASE
        WHEN l.course_id IS NULL OR j.course_id IS NULL THEN l.course_name = j.course_name
        ELSE l.course_id = j.course_id
    END
ORDER BY j.snapshot_date, j.student_id, l.class_id, j.class_id
