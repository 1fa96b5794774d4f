-- teacher_overview: One row per primary teacher of a listed class.
-- key: teacher_id
-- order: teacher_name, teacher_id
--
--   teacher_id          The primary teacher's id.
--   teacher_name        The primary teacher's name.
--   teacher_email       The primary teacher's email address.
--   class_count         Classes, active or not.
--   active_class_count  Active classes.
--   student_count       Different students whose records list one of the classes.
--   student_places      The sum of student_count over the active classes: a student in two of them counts twice.
--   to_watch            How many of these students are in students_to_watch.
--   average_completion  The average of their completion over all their classes: see student_progress.completion.
--   average_score       The average of their average_score, likewise.
WITH taught AS (
    SELECT DISTINCT c.teacher_id, e.student_id
    FROM main.classes AS c INNER JOIN main.student_classes AS e USING (class_id)
),
listed AS (
    SELECT
        t.teacher_id,
        COUNT(*) AS students,
        COUNT(w.student_id) AS to_watch,
        ROUND(AVG({{ metric.completion }}), 2) AS average_completion,
        ROUND(AVG(s.average_score), 2) AS average_score
    FROM taught AS t
    LEFT JOIN main.student_summaries AS s USING (student_id)
    LEFT JOIN (SELECT student_id FROM main.students_to_watch) AS w USING (student_id)
    GROUP BY t.teacher_id
)
SELECT
    teacher_id,
    MAX(teacher_name) AS teacher_name,
    MAX(teacher_email) AS teacher_email,
    {{ metric.class_count }} AS class_count,
    {{ metric.active_class_count }} AS active_class_count,
    COALESCE(ANY_VALUE(l.students), 0) AS student_count,
    {{ metric.student_places }} AS student_places,
    COALESCE(ANY_VALUE(l.to_watch), 0) AS to_watch,
    ANY_VALUE(l.average_completion) AS average_completion,
    ANY_VALUE(l.average_score) AS average_score
FROM main.classes LEFT JOIN listed AS l USING (teacher_id)
WHERE teacher_id IS NOT NULL
GROUP BY teacher_id
