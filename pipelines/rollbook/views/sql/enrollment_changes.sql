-- enrollment_changes: One row per student joining or leaving a class. Enrollments on the first landed day do not count.
-- key: snapshot_date, class_id, student_id
-- tells: changes
--
--   snapshot_date      The landed day that first showed the change.
--   change             joined or left.
--   class_id           The class's id at the records service.
--   class_title        Class name, as the student's record gave it then.
--   course_name        Course name, as the student's record gave it then.
--   student_id         The student's id at the records service.
--   name               The student's full name on that day, or the last known one after leaving the institution.
--   is_student_listed  Whether the student was listed on that day. If not, the student left every class.
--   is_class_listed    Whether the class was listed on that day, active or not.
-- Two adjacent versions of one enrollment (same student and class) are neither a leaving nor a joining.
WITH moved AS (
    SELECT h.valid_from AS snapshot_date, 'joined' AS change, h.student_id, h.class_id, h.class_title, h.course_name
    FROM history.student_classes AS h
    ANTI JOIN history.student_classes AS b
        ON b.student_id = h.student_id AND b.class_id = h.class_id AND b.valid_to = h.valid_from
    WHERE h.valid_from > (SELECT MIN(snapshot_date) FROM spans.days)
    UNION ALL
    SELECT h.valid_to, 'left', h.student_id, h.class_id, h.class_title, h.course_name
    FROM history.student_classes AS h
    ANTI JOIN history.student_classes AS a
        ON a.student_id = h.student_id AND a.class_id = h.class_id AND a.valid_from = h.valid_to
    WHERE h.valid_to IS NOT NULL
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
