-- Explore: each institution with its figures, and how it stands; those that somebody should look at come first.
SELECT
    i.institution, i.school_name, i.newest_day, COALESCE(i.left_out, i.paused, i.last_outcome) AS stands,
    c.students, c.active_classes, c.average_completion_rate, c.completion_vs_institutions, c.average_score
FROM main.institutions AS i LEFT JOIN main.institutions_compared AS c USING (institution)
ORDER BY COALESCE(i.left_out, i.paused, i.last_outcome, 'synced') = 'synced', i.institution
