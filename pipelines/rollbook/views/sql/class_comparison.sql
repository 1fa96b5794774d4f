-- class_comparison: One row per active class, compared with the active classes of its course and of the institution.
-- key: class_id
--
-- Averages count each class once, regardless of its size. Ranks start at 1 for the highest; ties share a rank.
--
--   class_id                     The class's id at the records service.
--   class_title                  Class name.
--   class_code                   Class code or section identifier.
--   course_id                    The course's id; NULL when the class states none: then all columns of the course are NULL.
--   course_name                  The course's name.
--   teacher_id                   The primary teacher's id.
--   teacher_name                 The primary teacher's name.
--   student_count                Number of enrolled students, as the class's record gives it.
--   average_completion_rate      The class's own average completion, percent, as its record gives it.
--   course_completion_rate       The average of average_completion_rate over the course's active classes.
--   completion_vs_course         Points above (below: negative) that average.
--   institution_completion_rate  The average of average_completion_rate over all active classes.
--   completion_vs_institution    Points above (below: negative) that average.
--   completion_rank_in_course    Place among the course's active classes by completion.
--   completion_rank              Place among all active classes by completion.
--   average_score                The class's average score.
--   course_score                 The average of average_score over the course's active classes.
--   score_vs_course              Points above (below: negative) that average.
--   institution_score            The average of average_score over all active classes.
--   score_vs_institution         Points above (below: negative) that average.
--   score_rank_in_course         Place among the course's active classes by score.
--   score_rank                   Place among all active classes by score.
--   minutes_per_student          Total engagement divided by student_count; NULL without students.
--   roster_students              Students whose records list the class. student_count may differ: it is the class's record.
--   roster_completion_rate       Their average completion over all of their classes, so not the class's own; NULL if none.
--   classes_in_course            Active classes of the course, this one among them.
--   classes_in_institution       Active classes of the institution.
WITH active AS (
    SELECT c.*, s.average_completion_rate, s.average_score, s.total_engagement_minutes
    FROM main.classes AS c LEFT JOIN main.class_summaries AS s USING (class_id)
    WHERE c.class_status = 1
),
institution AS (
    SELECT AVG(average_completion_rate) AS completion, AVG(average_score) AS score, COUNT(*) AS classes FROM active
),
rosters AS (
    SELECT
        class_id, {{ metric.roster_students }} AS roster_students,
        {{ metric.roster_completion_rate }} AS roster_completion_rate
    FROM main.student_classes LEFT JOIN main.student_summaries USING (student_id)
    GROUP BY class_id
),
courses AS (
    SELECT course_id, AVG(average_completion_rate) AS completion, AVG(average_score) AS score, COUNT(*) AS classes
    FROM active WHERE course_id IS NOT NULL GROUP BY course_id
),
ranked AS (
    SELECT
        *,
        RANK() OVER (PARTITION BY course_id ORDER BY average_completion_rate DESC NULLS LAST) AS completion_in_course,
        RANK() OVER (ORDER BY average_completion_rate DESC NULLS LAST) AS completion_in_all,
        RANK() OVER (PARTITION BY course_id ORDER BY average_score DESC NULLS LAST) AS score_in_course,
        RANK() OVER (ORDER BY average_score DESC NULLS LAST) AS score_in_all
    FROM active
)
SELECT
    r.class_id,
    r.class_title,
    r.class_code,
    r.course_id,
    r.course_name,
    r.teacher_id,
    r.teacher_name,
    r.student_count,
    r.average_completion_rate,
    ROUND(c.completion, 2) AS course_completion_rate,
    {{ m.difference("r.average_completion_rate - c.completion") }} AS completion_vs_course,
    ROUND(i.completion, 2) AS institution_completion_rate,
    {{ m.difference("r.average_completion_rate - i.completion") }} AS completion_vs_institution,
    CASE WHEN r.average_completion_rate IS NOT NULL AND r.course_id IS NOT NULL THEN r.completion_in_course END
        AS completion_rank_in_course,
    CASE WHEN r.average_completion_rate IS NOT NULL THEN r.completion_in_all END AS completion_rank,
    r.average_score,
    ROUND(c.score, 2) AS course_score,
    {{ m.difference("r.average_score - c.score") }} AS score_vs_course,
    ROUND(i.score, 2) AS institution_score,
    {{ m.difference("r.average_score - i.score") }} AS score_vs_institution,
    CASE WHEN r.average_score IS NOT NULL AND r.course_id IS NOT NULL THEN r.score_in_course END
        AS score_rank_in_course,
    CASE WHEN r.average_score IS NOT NULL THEN r.score_in_all END AS score_rank,
    ROUND(r.total_engagement_minutes / NULLIF(r.student_count, 0), 2) AS minutes_per_student,
    COALESCE(s.roster_students, 0) AS roster_students,
    s.roster_completion_rate,
    c.classes AS classes_in_course,
    i.classes AS classes_in_institution
FROM ranked AS r CROSS JOIN institution AS i LEFT JOIN courses AS c USING (course_id)
LEFT JOIN rosters AS s USING (class_id)
