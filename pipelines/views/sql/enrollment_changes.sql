-- enrollment_changes: One row per student joining or leaving a class. What stood on the first landed day is no joining.
-- key: snapshot_date, class_id, student_id
--
--   snapshot_date      The snapshot that first showed it.
--   change             joined or left.
--   class_id           The class's id at the records service.
--   class_title        Class name, as the student's record gave it then.
--   course_name        Course name, as the student's record gave it then.
--   student_id         The student's id at the records service.
--   name               The student's full name on that day; of one who left the institution, the last one.
--   is_student_listed  Whether the student was listed on that day: one who was not has left every class.
--   is_class_listed    Whether the class was listed on that day, active or not.
WITH enrolled AS (
    SELECT
        *,
        LAG(valid_to) OVER w AS before_to,
        LEAD(valid_from) OVER w AS after_from
    FROM history.student_classes
    WINDOW w AS (PARTITION BY student_id, class_id ORDER BY valid_from)
),
moved AS (
    SELECT valid_from AS snapshot_date, 'joined' AS change, student_id, class_id, class_title, course_name
    FROM enrolled
    WHERE valid_from > (SELECT MIN(snapshot_date) FROM spans.days) AND (before_to IS NULL OR before_to < valid_from)
    UNION ALL
    SELECT valid_to, 'left', student_id, class_id, class_title, course_name
    FROM enrolled
    WHERE valid_to IS NOT NULL AND (after_from IS NULL OR after_from > valid_to)
)
SELECT
    m.snapshot_date,
    m.change,
    m.class_id,
    m.class_title,
    m.course_name,
    m.student_id,
    s.name,
    s.student_id IS NOT NULL AND COALESCE(s.valid_to > m.snapshot_date, TRUE) AS is_student_listed,
    c.class_id IS NOT NULL AND COALESCE(c.valid_to > m.snapshot_date, TRUE) AS is_class_listed
FROM moved AS m
-- The last version that had begun by that day.
ASOF LEFT JOIN history.students AS s ON s.student_id = m.student_id AND s.valid_from <= m.snapshot_date
ASOF LEFT JOIN history.classes AS c ON c.class_id = m.class_id AND c.valid_from <= m.snapshot_date
ORDER BY m.snapshot_date, m.class_id, m.student_id
