-- class_weekly: One row per ISO week and class listed on its last landed day: that state, and the change in a week.
-- key: week_begins, class_id
--
-- Changes are against the last landed day of the week before; NULL if nothing was landed in that week. Filter by one
-- week or some classes; write weeks as dates.
--
-- A class's own averages also move when students come and go. The same_ columns show the change of the same students:
-- those who are in the class then and now. Their completion and score are over all of their classes, as the service
-- states them. Where assignments are counted again since then, of a class or of a student, completion and score are of
-- other work: such a class has no change of its own, and such students are left out of the same_ columns.
--
--   week_begins               The Monday of the week.
--   snapshot_date             The last landed day of the week, whose state this is.
--   landed_days               How many days of the week were landed.
--   class_id                  The class's id at the records service.
--   class_title               Class name on that day.
--   is_active                 Whether the class was active on that day.
--   course_id                 The course's id.
--   course_name               The course's name.
--   teacher_id                The primary teacher's id on that day.
--   student_count             Number of enrolled students, as the class's record gives it.
--   average_completion_rate   Average completion, percent; NULL, not 0, without assignments or students.
--   average_score             Average score; NULL, not 0, without assignments, students or submissions.
--   total_engagement_minutes  Total engagement in minutes.
--   completion_change         Points of average_completion_rate gained since (lost: negative).
--   score_change              Points of average_score gained since (lost: negative).
--   minutes_change            Minutes of engagement since; NULL where they are fewer, and so began again.
--   same_students             Students whose records list the class then and now.
--   same_completion_change    Average gain in completion of same_students, in points, with assignments both times.
--   same_score_change         Average gain in average score of same_students, in points.
{% import "_student_state.sql" as state with context %}
{% import "_weeks.sql" as week with context %}
WITH weeks AS NOT MATERIALIZED (
    {{ week.landed() }}
),
pairs AS NOT MATERIALIZED (
    SELECT w.*, b.snapshot_date AS before_date FROM weeks AS w LEFT JOIN weeks AS b ON b.week_begins = w.week_begins - 7
),
{% macro figures(day) -%}
    SELECT
        w.week_begins, c.*, {{ metric.class_completion }} AS average_completion_rate,
        {{ metric.class_score }} AS average_score, s.total_engagement_minutes, a.assignment_count
    FROM pairs AS w
    INNER JOIN history.classes AS c
        ON {{ m.valid_on("c", day) }}
    LEFT JOIN history.class_summaries AS s
        ON s.class_id = c.class_id
        AND {{ m.valid_on("s", day) }}
    LEFT JOIN history.class_assignment_activity AS a
        ON a.class_id = c.class_id
        AND {{ m.valid_on("a", day) }}
{%- endmacro %}
now AS NOT MATERIALIZED (
{{ figures("w.snapshot_date") }}
),
before AS NOT MATERIALIZED (
{{ figures("w.before_date") }}
),
-- One row per week, class and student in the class both then and now.
same AS NOT MATERIALIZED (
    SELECT
        w.week_begins, now.class_id,
        {{ state.of_same_count("summary", "earlier", "summary.completion - earlier.completion") }} AS completion_change,
        {{ state.of_same_count("summary", "earlier", "summary.average_score - earlier.average_score") }} AS score_change
    FROM pairs AS w
    INNER JOIN history.student_classes AS now
        ON {{ m.valid_on("now", "w.snapshot_date") }}
    INNER JOIN history.student_classes AS was
        ON was.class_id = now.class_id AND was.student_id = now.student_id
        AND {{ m.valid_on("was", "w.before_date") }}
    LEFT JOIN (SELECT *, {{ metric.completion }} AS completion FROM history.student_summaries) AS summary
        ON summary.student_id = now.student_id
        AND {{ m.valid_on("summary", "w.snapshot_date") }}
    LEFT JOIN (SELECT *, {{ metric.completion }} AS completion FROM history.student_summaries) AS earlier
        ON earlier.student_id = now.student_id
        AND {{ m.valid_on("earlier", "w.before_date") }}
),
moved AS NOT MATERIALIZED (
    SELECT
        week_begins, class_id, COUNT(*) AS same_students,
        {{ m.difference("AVG(completion_change)") }} AS same_completion_change,
        {{ m.difference("AVG(score_change)") }} AS same_score_change
    FROM same GROUP BY week_begins, class_id
)
SELECT
    w.week_begins,
    w.snapshot_date,
    w.landed_days,
    c.class_id,
    c.class_title,
    c.class_status = 1 AS is_active,
    c.course_id,
    c.course_name,
    c.teacher_id,
    c.student_count,
    c.average_completion_rate,
    c.average_score,
    c.total_engagement_minutes,
    {% for column, figure in (("completion_change", "average_completion_rate"), ("score_change", "average_score")) %}
    {% set change = m.difference("c." ~ figure ~ " - b." ~ figure) %}
    {{ state.of_same_count("c", "b", change, "assignment_count") }} AS {{ column }},
    {% endfor %}
    {{ state.of_same_count(
        "c", "b", "c.total_engagement_minutes - b.total_engagement_minutes", "total_engagement_minutes"
    ) }} AS minutes_change,
    CASE WHEN w.before_date IS NOT NULL THEN COALESCE(m.same_students, 0) END AS same_students,
    m.same_completion_change,
    m.same_score_change
FROM pairs AS w
INNER JOIN now AS c ON c.week_begins = w.week_begins
LEFT JOIN before AS b ON b.week_begins = w.week_begins AND b.class_id = c.class_id
LEFT JOIN moved AS m ON m.week_begins = w.week_begins AND m.class_id = c.class_id
