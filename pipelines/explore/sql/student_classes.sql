-- Explore: one student's times in classes, from the versions of the enrolment that adjoin, the newest first.
WITH versions AS (
    SELECT *, LAG(valid_to) OVER (PARTITION BY class_id ORDER BY valid_from) AS before_to
    FROM history.student_classes WHERE student_id = $student_id
),
numbered AS (
    SELECT
        *,
        COUNT(*) FILTER (before_to IS NULL OR before_to < valid_from) OVER (PARTITION BY class_id ORDER BY valid_from)
            AS number
    FROM versions
)
SELECT
    class_id,
    ARG_MAX(class_title, valid_from) AS class_title,
    ARG_MAX(course_name, valid_from) AS course_name,
    CASE
        WHEN MIN(valid_from) = (SELECT MIN(snapshot_date) FROM spans.days) THEN MIN(valid_from) || ' or before'
        ELSE CAST(MIN(valid_from) AS VARCHAR)
    END AS joined_on,
    CASE WHEN COUNT(valid_to) = COUNT(*) THEN MAX(valid_to) END AS left_on
FROM numbered
GROUP BY class_id, number
ORDER BY left_on DESC NULLS FIRST, class_title, class_id
