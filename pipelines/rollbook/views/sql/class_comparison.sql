-- class_comparison: One row per active class, compared with the active classes of its course and of the institution.
-- key: class_id
-- order: class_title, class_id
--
-- Averages count each other class once, regardless of its size: the class itself is left out, so that it is compared
-- with others alone. Ranks start at 1 for the highest; ties share a rank. A class with fewer than least_assignments (see
-- main.thresholds) is not compared: of two assignments, one is a half. It has no rank, and is in no average of the others.
--
--   class_id                     The class's id at the records service.
--   class_title                  Class name.
--   class_code                   Class code or section identifier.
--   course_id                    The course's id; NULL when the class states none: then all columns of the course are NULL.
--   course_name                  The course's name.
--   teacher_id                   The primary teacher's id.
--   teacher_name                 The primary teacher's name.
--   student_count                Number of enrolled students, as the class's record gives it.
--   average_completion_rate      The class's own, percent; NULL, not 0, without assignments or students.
--   course_completion_rate       The average of average_completion_rate over the course's other active classes.
--   completion_vs_course         Points above (below: negative) that average.
--   institution_completion_rate  The average of average_completion_rate over all other active classes.
--   completion_vs_institution    Points above (below: negative) that average.
--   completion_rank_in_course    Place among the course's active classes by completion.
--   completion_rank              Place among all active classes by completion.
--   average_score                The class's own; NULL, not 0, without assignments, students or submissions.
--   course_score                 The average of average_score over the course's other active classes.
--   score_vs_course              Points above (below: negative) that average.
--   institution_score            The average of average_score over all other active classes.
--   score_vs_institution         Points above (below: negative) that average.
--   score_rank_in_course         Place among the course's active classes by score.
--   score_rank                   Place among all active classes by score.
--   minutes_per_student          Total engagement divided by student_count; NULL without students.
--   roster_students              Students whose records list the class. student_count may differ: it is the class's record.
--   roster_completion_rate       Their average completion over all of their classes, so not the class's own; NULL if none.
--   classes_in_course            Active classes of the course, this one among them.
--   classes_in_institution       Active classes of the institution.
--   assignment_count             Number of assignments, as the class's record gives it.
--   is_compared                  Whether these are least_assignments or more, or unknown.
--   others_in_course             On how many other classes of the course course_completion_rate rests.
--   others_in_institution        On how many other classes institution_completion_rate rests.
--   is_small                     Fewer than {{ small_class }} students: one of them may move the averages a lot.
WITH active AS (
    SELECT
        c.*, {{ metric.class_completion }} AS average_completion_rate, {{ metric.class_score }} AS average_score,
        s.total_engagement_minutes, assignment_count,
        COALESCE(assignment_count >= (SELECT value FROM main.thresholds WHERE name = 'least_assignments'), TRUE)
            AS is_compared
    FROM main.classes AS c
    LEFT JOIN main.class_summaries AS s USING (class_id)
    LEFT JOIN main.class_assignment_activity USING (class_id)
    WHERE c.class_status = 1
),
rosters AS (
    SELECT
        class_id, {{ metric.roster_students }} AS roster_students,
        {{ metric.roster_completion_rate }} AS roster_completion_rate
    FROM main.student_classes LEFT JOIN main.student_summaries USING (student_id)
    GROUP BY class_id
),
{% macro others(measure, among="") -%}
    (SUM({{ measure }}) OVER ({{ among }}) - COALESCE({{ measure }}, 0))
        / NULLIF({{ how_many(measure, among) }}, 0)
{%- endmacro %}
{% macro how_many(measure, among="") -%}
(COUNT({{ measure }}) OVER ({{ among }}) - CAST({{ measure }} IS NOT NULL AS INTEGER))
{%- endmacro %}
{% set of_course = "PARTITION BY course_id" %}
ranked AS (
    SELECT
        *,
        CASE WHEN is_compared THEN average_completion_rate END AS completion,
        CASE WHEN is_compared THEN average_score END AS score,
        {{ others("completion", of_course) }} AS completion_of_course,
        {{ others("score", of_course) }} AS score_of_course,
        {{ others("completion") }} AS completion_of_all,
        {{ others("score") }} AS score_of_all,
        {{ how_many("completion", of_course) }} AS others_in_course,
        {{ how_many("completion") }} AS others_in_institution,
        COUNT(*) OVER ({{ of_course }}) AS classes_in_course,
        COUNT(*) OVER () AS classes_in_institution,
        RANK() OVER (PARTITION BY course_id ORDER BY completion DESC NULLS LAST) AS completion_in_course,
        RANK() OVER (ORDER BY completion DESC NULLS LAST) AS completion_in_all,
        RANK() OVER (PARTITION BY course_id ORDER BY score DESC NULLS LAST) AS score_in_course,
        RANK() OVER (ORDER BY score DESC NULLS LAST) AS score_in_all
    FROM active
)
{% macro in_course(value) -%}
CASE WHEN r.course_id IS NOT NULL THEN {{ value }} END
{%- endmacro %}
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
    {{ in_course("ROUND(r.completion_of_course, 2)") }} AS course_completion_rate,
    {{ in_course(m.difference("r.completion - r.completion_of_course")) }} AS completion_vs_course,
    ROUND(r.completion_of_all, 2) AS institution_completion_rate,
    {{ m.difference("r.completion - r.completion_of_all") }} AS completion_vs_institution,
    {{ in_course("CASE WHEN r.completion IS NOT NULL THEN r.completion_in_course END") }} AS completion_rank_in_course,
    CASE WHEN r.completion IS NOT NULL THEN r.completion_in_all END AS completion_rank,
    r.average_score,
    {{ in_course("ROUND(r.score_of_course, 2)") }} AS course_score,
    {{ in_course(m.difference("r.score - r.score_of_course")) }} AS score_vs_course,
    ROUND(r.score_of_all, 2) AS institution_score,
    {{ m.difference("r.score - r.score_of_all") }} AS score_vs_institution,
    {{ in_course("CASE WHEN r.score IS NOT NULL THEN r.score_in_course END") }} AS score_rank_in_course,
    CASE WHEN r.score IS NOT NULL THEN r.score_in_all END AS score_rank,
    ROUND(r.total_engagement_minutes / NULLIF(r.student_count, 0), 2) AS minutes_per_student,
    COALESCE(s.roster_students, 0) AS roster_students,
    s.roster_completion_rate,
    {{ in_course("r.classes_in_course") }} AS classes_in_course,
    r.classes_in_institution,
    r.assignment_count,
    r.is_compared,
    {{ in_course("r.others_in_course") }} AS others_in_course,
    r.others_in_institution,
    COALESCE(r.student_count, s.roster_students, 0) < {{ small_class }} AS is_small
FROM ranked AS r LEFT JOIN rosters AS s USING (class_id)
