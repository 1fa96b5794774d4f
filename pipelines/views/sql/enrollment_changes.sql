-- enrollment_changes: One row per student joining or leaving a class. What stood on the first landed day is no joining.
--
--   snapshot_date      The snapshot that first showed it.
--   change             joined or left.
--   class_id           The class's id at the records service.
--   class_title        Class name, as the student's record gave it then.
--   course_name        Course name, as the student's record gave it then.
--   student_id         The student's id at the records service.
--   name               The student's full name, the last one known.
--   is_student_listed  Whether the student is listed now: one who is not has left every class.
--   is_class_listed    Whether the class is listed now, active or not.
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
),
named AS (
    SELECT student_id, ARG_MAX(name, valid_from) AS name, BOOL_OR(valid_to IS NULL) AS is_listed
    FROM history.students SEMI JOIN moved USING (student_id)
    GROUP BY student_id
)
SELECT
    m.snapshot_date,
    m.change,
    m.class_id,
    m.class_title,
    m.course_name,
    m.student_id,
    n.name,
    COALESCE(n.is_listed, FALSE) AS is_student_listed,
    c.class_id IS NOT NULL AS is_class_listed
FROM moved AS m
LEFT JOIN named AS n USING (student_id)
LEFT JOIN main.classes AS c USING (class_id)
ORDER BY m.snapshot_date, m.class_id, m.student_id
