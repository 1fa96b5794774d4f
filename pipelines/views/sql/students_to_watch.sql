-- students_to_watch: One row per student with at least one reason to look; most reasons first. See main.thresholds.
-- key: student_id
--
-- The reasons are joined on one row, so that counting rows counts students; each has a flag of its own to filter by.
-- A student without assignments has no completion that could be low or fall. Who never logged in is not also inactive.
--
--   student_id               Unique student user id.
--   name                     Full name.
--   email                    Student email address.
--   reference_id             The institution's own student id.
--   class_titles             The student's active classes, '; ' between them.
--   reason                   Why, in words, '; ' between several reasons.
--   reason_count             How many of the five reasons hold.
--   is_low_completion        completion_rate is under completion_below.
--   is_low_score             average_score is under score_below.
--   is_inactive              The last activity is inactive_days ago or longer.
--   is_never_logged_in       Never logged in, though registered for never_logged_in_days or longer.
--   is_falling               Completion or score fell by falling_points or more within falling_days.
--   completion_rate          Assignment completion now, percent.
--   completion_rate_before   The same falling_days before the newest landed day; NULL if not known then.
--   average_score            Average score now.
--   average_score_before     The same falling_days before the newest landed day; NULL if not known then.
--   last_activity_date       Day of the last activity.
--   days_inactive            Days from the last activity to the newest landed day.
WITH t AS (
    SELECT
        MAX(value) FILTER (name = 'completion_below') AS completion_below,
        MAX(value) FILTER (name = 'score_below') AS score_below,
        MAX(value) FILTER (name = 'inactive_days') AS inactive_days,
        MAX(value) FILTER (name = 'never_logged_in_days') AS never_logged_in_days,
        MAX(value) FILTER (name = 'falling_points') AS falling_points,
        MAX(value) FILTER (name = 'falling_days') AS falling_days,
        (SELECT MAX(snapshot_date) FROM spans.days) AS today
    FROM main.thresholds
),
before AS (
    SELECT h.student_id, h.average_score, CASE WHEN h.total_assignments > 0 THEN h.completion_rate END AS completion_rate
    FROM history.student_summaries AS h CROSS JOIN t
    WHERE h.valid_from <= t.today - CAST(t.falling_days AS INTEGER)
        AND (h.valid_to IS NULL OR h.valid_to > t.today - CAST(t.falling_days AS INTEGER))
),
now AS (
    SELECT
        p.* EXCLUDE (completion_rate), t.*,
        CASE WHEN p.total_assignments > 0 THEN p.completion_rate END AS completion_rate,
        b.completion_rate AS completion_rate_before,
        b.average_score AS average_score_before
    FROM main.student_progress AS p CROSS JOIN t LEFT JOIN before AS b USING (student_id)
),
judged AS (
    SELECT
        *,
        COALESCE(completion_rate < completion_below, FALSE) AS is_low_completion,
        COALESCE(average_score < score_below, FALSE) AS is_low_score,
        COALESCE(days_inactive >= inactive_days AND has_ever_logged_in IS DISTINCT FROM FALSE, FALSE) AS is_inactive,
        COALESCE(NOT has_ever_logged_in AND today - registration_date >= never_logged_in_days, FALSE)
            AS is_never_logged_in,
        COALESCE(completion_rate_before - completion_rate >= falling_points, FALSE) AS is_completion_falling,
        COALESCE(average_score_before - average_score >= falling_points, FALSE) AS is_score_falling
    FROM now
),
counted AS (
    SELECT
        *,
        is_completion_falling OR is_score_falling AS is_falling,
        CAST(is_low_completion AS INTEGER) + CAST(is_low_score AS INTEGER) + CAST(is_inactive AS INTEGER)
        + CAST(is_never_logged_in AS INTEGER) + CAST(is_completion_falling OR is_score_falling AS INTEGER)
            AS reason_count
    FROM judged
)
SELECT
    student_id,
    name,
    email,
    reference_id,
    class_titles,
    CONCAT_WS(
        '; ',
        CASE WHEN is_never_logged_in THEN 'never logged in, registered ' || registration_date END,
        CASE WHEN is_inactive THEN FORMAT('inactive for {} days', days_inactive) END,
        CASE WHEN is_completion_falling
            THEN FORMAT(
                'completion fell from {:g} to {:g} % in {:g} days', completion_rate_before, completion_rate, falling_days
            ) END,
        CASE WHEN is_score_falling
            THEN FORMAT('score fell from {:g} to {:g} in {:g} days', average_score_before, average_score, falling_days) END,
        CASE WHEN is_low_completion
            THEN FORMAT('low completion ({:g} %, under {:g})', completion_rate, completion_below) END,
        CASE WHEN is_low_score THEN FORMAT('low score ({:g}, under {:g})', average_score, score_below) END
    ) AS reason,
    reason_count,
    is_low_completion,
    is_low_score,
    is_inactive,
    is_never_logged_in,
    is_falling,
    completion_rate,
    completion_rate_before,
    average_score,
    average_score_before,
    last_activity_date,
    days_inactive
FROM counted
WHERE reason_count > 0
ORDER BY reason_count DESC, student_id
