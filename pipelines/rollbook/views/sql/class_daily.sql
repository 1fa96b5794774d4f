-- class_daily: One row per landed day and class listed on that day, active or not, from history.
-- key: snapshot_date, class_id
--
--   snapshot_date                 The day of the snapshot.
--   class_id                      The class's id at the records service.
--   class_title                   Class name on that day.
--   is_active                     Whether the class was active on that day.
--   course_id                     The course's id.
--   course_name                   The course's name.
--   teacher_id                    The primary teacher's id on that day.
--   student_count                 Number of enrolled students.
--   average_completion_rate       Average completion, percent; NULL, not 0, without assignments or students.
--   average_score                 Average score; NULL, not 0, without assignments, students or submissions.
--   total_engagement_minutes      Total engagement in minutes.
--   assignment_count              Number of assignments.
--   students_with_submissions     Enrolled students who had submitted.
--   students_without_submissions  Enrolled students who had not.
SELECT
    d.snapshot_date,
    c.class_id,
    c.class_title,
    c.class_status = 1 AS is_active,
    c.course_id,
    c.course_name,
    c.teacher_id,
    c.student_count,
    {{ metric.class_completion }} AS average_completion_rate,
    {{ metric.class_score }} AS average_score,
    s.total_engagement_minutes,
    a.assignment_count,
    a.students_with_submissions,
    a.students_without_submissions
FROM spans.days AS d
INNER JOIN history.classes AS c
    ON {{ m.valid_on("c", "d.snapshot_date") }}
LEFT JOIN history.class_summaries AS s
    ON s.class_id = c.class_id
    AND {{ m.valid_on("s", "d.snapshot_date") }}
LEFT JOIN history.class_assignment_activity AS a
    ON a.class_id = c.class_id
    AND {{ m.valid_on("a", "d.snapshot_date") }}
