-- Explore: the students who are to be watched on one of two days and not on the other, and why, most reasons first.
WITH watched AS (
    SELECT
        *,
        LIST_FILTER(
            [
                CASE WHEN is_completion_falling
                    THEN FORMAT('completion fell from {:g} to {:g} %', completion_rate_before, completion_rate) END,
                CASE WHEN is_score_falling
                    THEN FORMAT('score fell from {:g} to {:g}', average_score_before, average_score) END,
                CASE WHEN is_never_logged_in THEN 'never logged in, registered ' || registration_date END,
                CASE WHEN is_inactive THEN FORMAT('inactive for {} days', days_inactive) END,
                CASE WHEN is_low_completion THEN FORMAT('low completion ({:g} %)', completion_rate) END,
                CASE WHEN is_low_score THEN FORMAT('low score ({:g})', average_score) END
            ],
            lambda reason: reason IS NOT NULL
        ) AS reasons
    FROM ({% include "judged.sql" %})
    WHERE is_falling OR is_never_logged_in OR is_inactive OR is_low_completion OR is_low_score
),
turned AS (
    SELECT * FROM watched AS w
    WHERE day = CASE WHEN $newly THEN CAST($day AS DATE) ELSE CAST($before AS DATE) END
        AND NOT EXISTS (FROM watched AS o WHERE o.student_id = w.student_id AND o.day <> w.day)
)
SELECT student_id, name, ARRAY_TO_STRING(reasons, '; ') AS why, COUNT(*) OVER () AS total
FROM turned
WHERE $text = '' OR CONTAINS(LOWER(name), LOWER($text)) OR CONTAINS(LOWER(why), LOWER($text))
ORDER BY LEN(reasons) DESC, is_falling DESC, name, student_id LIMIT $most OFFSET $skip
