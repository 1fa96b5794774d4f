-- student_progress: One row per student: the student's whole current state.
-- key: student_id
-- order: name, student_id
--
--   student_id                   Unique student user id.
--   name                         Full name.
--   first_name                   First name.
--   last_name                    Last name.
--   email                        Student email address.
--   reference_id                 The institution's own student id.
--   profile_image                URL of a picture.
--   registration_date            Day of registration.
--   is_registered                Whether the service says that the student is registered: so of all whom it returns.
--   class_count                  Active classes the student's record lists; NULL when it never stated them.
--   class_titles                 Their titles, in alphabetical order, separated by '; '; NULL when there are none.
--   total_assignments            Assignments given, since the service began to count: see student_weekly.
--   completed_assignments        Assignments the student completed.
--   completion_rate              As the service states it, percent, 0 to 100; may be 0, not NULL, without assignments.
--   completion                   The same, but NULL without assignments: the one to average and compare.
--   average_score                Average score, 0 to 100; NULL when nothing was scored.
--   total_assessments            Assessments given.
--   completed_assessments        Assessments completed.
--   total_time_minutes           Total learning time in minutes.
--   assignment_submission_count  Assignments submitted.
--   assignment_missing_count     Assignments missing.
--   has_ever_logged_in           Whether the student has ever logged in.
--   first_login_date             Day of the first login.
--   last_activity_date           Day of the last activity: the later of the days in summary and activity tracking.
--   days_inactive                Days from the last activity to the newest landed day.
--   is_active                    Whether the last activity was on that day or within the seven days before; NULL = unknown.
--   days_since_last_activity     Days since the last activity, as the service last stated it.
--   unchanged_since              The landed day that first showed the current summary.
--   stated_on                    The last landed day that stated the summary; before the newest one, what was known then stands. NULL: none did.
WITH listed AS (
    SELECT
        student_id,
        COUNT(*) AS class_count,
        STRING_AGG(class_title, '; ' ORDER BY class_title, class_id) AS class_titles
    FROM main.student_classes
    GROUP BY student_id
),
-- Students without a class, then those whose record has said so since the student was last added or returned.
without AS (SELECT student_id FROM main.students ANTI JOIN main.student_classes USING (student_id)),
versions AS (
    SELECT student_id, valid_from, LAG(valid_to) OVER (PARTITION BY student_id ORDER BY valid_from) AS before_to
    FROM history.students SEMI JOIN without USING (student_id)
),
present AS (
    SELECT student_id, MAX(valid_from) FILTER (before_to IS NULL OR before_to < valid_from) AS since
    FROM versions GROUP BY student_id
),
in_none AS (
    SELECT DISTINCT r.student_id
    FROM spans.student_classes AS r INNER JOIN present AS p USING (student_id)
    WHERE r.span_state IN ('stated', 'empty') AND (r.last_day IS NULL OR r.last_day >= p.since)
)
SELECT
    s.student_id,
    s.name,
    s.first_name,
    s.last_name,
    s.email,
    s.reference_id,
    s.profile_image,
    s.registration_date,
    s.is_registered = 1 AS is_registered,
    COALESCE(l.class_count, CASE WHEN n.student_id IS NOT NULL THEN 0 END) AS class_count,
    l.class_titles,
    summary.total_assignments,
    summary.completed_assignments,
    summary.completion_rate,
    {{ metric.completion }} AS completion,
    summary.average_score,
    summary.total_assessments,
    summary.completed_assessments,
    summary.total_time_minutes,
    activity.assignment_submission_count,
    activity.assignment_missing_count,
    activity.has_ever_logged_in,
    activity.first_login_date,
    {{ metric.last_activity_date }} AS last_activity_date,
    {{ metric.days_inactive }} AS days_inactive,
    {{ metric.is_active }} AS is_active,
    activity.days_since_last_activity,
    h.valid_from AS unchanged_since,
    -- LEAST alone would take an unknown day for the other one.
    CASE WHEN stated.until IS NOT NULL THEN LEAST(stated.until, landed.snapshot_date) END AS stated_on
FROM main.students AS s
CROSS JOIN (SELECT MAX(snapshot_date) AS snapshot_date FROM spans.days) AS landed
LEFT JOIN main.student_summaries AS summary USING (student_id)
LEFT JOIN main.student_activity AS activity USING (student_id)
LEFT JOIN listed AS l USING (student_id)
LEFT JOIN in_none AS n USING (student_id)
LEFT JOIN (SELECT student_id, valid_from FROM history.student_summaries WHERE valid_to IS NULL) AS h
    USING (student_id)
LEFT JOIN (
    SELECT student_id, MAX(COALESCE(last_day, DATE 'infinity')) AS until
    FROM spans.student_summaries WHERE span_state = 'stated' GROUP BY student_id
) AS stated USING (student_id)
