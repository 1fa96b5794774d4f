-- The fleet's page: the figures of each institution, the largest first.
SELECT
    institution, snapshot_date, students, active_classes, average_completion_rate, completion_vs_institutions,
    average_score
FROM main.institutions_compared
ORDER BY students DESC, institution
