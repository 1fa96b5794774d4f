-- Explore: all institutions, or the chosen ones, with their state and figures; those that need attention come first.
-- One day behind is not a problem: the institution may only be further west.
WITH standing AS (
    SELECT
        institution, school_name, newest_day,
        COALESCE(
            left_out, 'paused: ' || paused,
            CASE
                WHEN last_outcome IN ('held', 'failed') THEN last_outcome
                WHEN newest_day IS NULL THEN 'never synced'
                WHEN days_behind > 1 THEN FORMAT('{} days behind', days_behind)
            END
        ) AS trouble
    FROM main.institutions
    WHERE LEN($chosen) = 0 OR LIST_CONTAINS($chosen, institution)
)
SELECT
    s.institution AS id, s.institution, s.school_name, s.newest_day, COALESCE(s.trouble, 'up to date') AS stands,
    c.students, c.active_classes, c.average_completion_rate, c.completion_vs_institutions, c.average_score
FROM standing AS s LEFT JOIN main.institutions_compared AS c USING (institution)
ORDER BY s.trouble IS NULL, s.institution
