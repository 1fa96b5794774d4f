-- The fleet's page: each institution in figures, the largest first.
SELECT
    institution, snapshot_date, students, active_classes, average_completion_rate, completion_vs_institutions,
    average_score
FROM main.institutions_compared
ORDER BY students DESC, institution
