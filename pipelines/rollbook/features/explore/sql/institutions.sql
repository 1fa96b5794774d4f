-- Explore: all institutions, or the chosen ones, with their state and figures. One day behind is not a problem: the
-- institution may only be further west.
WITH standing AS (
    SELECT
        institution, school_name, newest_day,
        COALESCE(
            left_out, 'paused: ' || paused,
            CASE
                WHEN last_outcome IN ('held', 'failed') THEN last_outcome
                WHEN newest_day IS NULL THEN 'never synced'
                WHEN days_behind > 1 THEN FORMAT('{} days behind', days_behind)
            END,
            'up to date'
        ) AS stands
    FROM main.institutions
    WHERE LEN($chosen) = 0 OR LIST_CONTAINS($chosen, institution)
)
SELECT
    s.institution AS id, s.institution, s.school_name AS school, s.newest_day AS "records up to", s.stands,
    c.students, c.active_classes AS "active classes", c.average_completion_rate AS "completion, %",
    c.completion_vs_institutions AS "against all", c.average_score AS score
FROM standing AS s LEFT JOIN main.institutions_compared AS c USING (institution)
