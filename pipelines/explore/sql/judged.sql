-- Explore: the students listed on two days, and which reasons to watch them held then, by the thresholds of now.
--
-- The reasons are those of students_to_watch, for any day.
WITH t AS (
    SELECT
        MAX(value) FILTER (name = 'completion_below') AS completion_below,
        MAX(value) FILTER (name = 'score_below') AS score_below,
        MAX(value) FILTER (name = 'inactive_days') AS inactive_days,
        MAX(value) FILTER (name = 'never_logged_in_days') AS never_logged_in_days,
        MAX(value) FILTER (name = 'falling_points') AS falling_points,
        MAX(value) FILTER (name = 'falling_days') AS falling_days
    FROM main.thresholds
),
asked AS (
    SELECT day, day - CAST(t.falling_days AS INTEGER) AS earlier
    FROM (SELECT UNNEST([CAST($day AS DATE), CAST($before AS DATE)]) AS day) CROSS JOIN t
),
summaries AS (
    SELECT
        student_id, valid_from, COALESCE(valid_to, DATE 'infinity') AS until, average_score, last_activity_date,
        CASE WHEN total_assignments > 0 THEN completion_rate END AS completion_rate
    FROM history.student_summaries
),
listed AS (
    SELECT
        d.day, s.student_id, s.name, s.registration_date,
        m.completion_rate, m.average_score,
        b.completion_rate AS completion_rate_before, b.average_score AS average_score_before,
        a.has_ever_logged_in,
        d.day - GREATEST(m.last_activity_date, a.last_activity_date) AS days_inactive
    FROM asked AS d
    INNER JOIN history.students AS s
        ON s.valid_from <= d.day AND COALESCE(s.valid_to, DATE 'infinity') > d.day
    LEFT JOIN summaries AS m
        ON m.student_id = s.student_id AND m.valid_from <= d.day AND m.until > d.day
    LEFT JOIN summaries AS b
        ON b.student_id = s.student_id AND b.valid_from <= d.earlier AND b.until > d.earlier
    LEFT JOIN history.student_activity AS a
        ON a.student_id = s.student_id AND a.valid_from <= d.day AND COALESCE(a.valid_to, DATE 'infinity') > d.day
)
SELECT
    l.day, l.student_id, l.name, l.registration_date, l.days_inactive,
    l.completion_rate, l.completion_rate_before, l.average_score, l.average_score_before,
    COALESCE(l.completion_rate_before - l.completion_rate >= t.falling_points, FALSE) AS is_completion_falling,
    COALESCE(l.average_score_before - l.average_score >= t.falling_points, FALSE) AS is_score_falling,
    is_completion_falling OR is_score_falling AS is_falling,
    COALESCE(NOT l.has_ever_logged_in AND l.day - l.registration_date >= t.never_logged_in_days, FALSE)
        AS is_never_logged_in,
    COALESCE(l.days_inactive >= t.inactive_days AND l.has_ever_logged_in IS DISTINCT FROM FALSE, FALSE) AS is_inactive,
    COALESCE(l.completion_rate < t.completion_below, FALSE) AS is_low_completion,
    COALESCE(l.average_score < t.score_below, FALSE) AS is_low_score
FROM listed AS l CROSS JOIN t
