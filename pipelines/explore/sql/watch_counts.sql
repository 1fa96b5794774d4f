-- Explore: how many students are to be watched on a day and on the one before, by reason.
SELECT
    day,
    COUNT(*) FILTER (is_falling OR is_never_logged_in OR is_inactive OR is_low_completion OR is_low_score),
    COUNT(*) FILTER (is_falling),
    COUNT(*) FILTER (is_never_logged_in),
    COUNT(*) FILTER (is_inactive),
    COUNT(*) FILTER (is_low_completion),
    COUNT(*) FILTER (is_low_score)
FROM ({% include "judged.sql" %})
GROUP BY day
ORDER BY day DESC
