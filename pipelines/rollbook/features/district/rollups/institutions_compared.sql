-- institutions_compared: One row per institution on its newest landed day, compared with all institutions.
-- key: institution
--
-- Averages over institutions count each of them once, regardless of its size. Ranks start at 1 for the highest; ties
-- share a rank. Each institution is shown on its own newest landed day: see snapshot_date.
--
--   institution                   Which institution, by its name in institutions.toml.
--   snapshot_date                 Its newest landed day.
--   students                      Students listed, each once.
--   active_classes                Active classes.
--   students_per_class            Students divided by active classes; NULL without any.
--   average_completion_rate       The average completion_rate over its students with assignments, percent.
--   institutions_completion_rate  The average of average_completion_rate over all institutions.
--   completion_vs_institutions    Points above (below: negative) that average.
--   completion_rank               Place among all institutions by completion.
--   completion_change_in_week     Points of average_completion_rate gained over the last seven landed days.
--   average_score                 The average average_score over its students who have one.
--   institutions_score            The average of average_score over all institutions.
--   score_vs_institutions         Points above (below: negative) that average.
--   score_rank                    Place among all institutions by score.
--   never_logged_in_percent       Students who had never logged in, as a share of the students listed, percent.
--   institutions                  How many institutions are compared.
WITH numbered AS (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY institution ORDER BY snapshot_date DESC) AS from_last
    FROM main.institutions_daily
),
newest AS (SELECT * FROM numbered WHERE from_last = 1),
overall AS (
    SELECT
        COUNT(*) AS institutions,
        CAST(SUM(CAST(average_completion_rate AS DECIMAL(18, 6))) AS DOUBLE)
        / NULLIF(CAST(COUNT(average_completion_rate) AS DOUBLE), 0) AS completion,
        CAST(SUM(CAST(average_score AS DECIMAL(18, 6))) AS DOUBLE)
        / NULLIF(CAST(COUNT(average_score) AS DOUBLE), 0) AS score
    FROM newest
),
ranked AS (
    SELECT
        *,
        RANK() OVER (ORDER BY average_completion_rate DESC NULLS LAST) AS by_completion,
        RANK() OVER (ORDER BY average_score DESC NULLS LAST) AS by_score
    FROM newest
)
SELECT
    r.institution,
    r.snapshot_date,
    r.students,
    r.active_classes,
    {{ m.rounded("CAST(r.students AS DOUBLE) / NULLIF(CAST(r.active_classes AS DOUBLE), 0)", 1) }} AS students_per_class,
    r.average_completion_rate,
    {{ m.rounded("o.completion") }} AS institutions_completion_rate,
    {{ m.rounded("r.average_completion_rate - o.completion") }} AS completion_vs_institutions,
    CASE WHEN r.average_completion_rate IS NOT NULL THEN r.by_completion END AS completion_rank,
    {{ m.rounded("r.average_completion_rate - b.average_completion_rate") }} AS completion_change_in_week,
    r.average_score,
    {{ m.rounded("o.score") }} AS institutions_score,
    {{ m.rounded("r.average_score - o.score") }} AS score_vs_institutions,
    CASE WHEN r.average_score IS NOT NULL THEN r.by_score END AS score_rank,
    {{ m.rounded(
        "100 * CAST(r.never_logged_in_students AS DOUBLE) / NULLIF(CAST(r.students AS DOUBLE), 0)"
    ) }} AS never_logged_in_percent,
    o.institutions
FROM ranked AS r
CROSS JOIN overall AS o
LEFT JOIN numbered AS b ON b.institution = r.institution AND b.from_last = 8
ORDER BY r.institution
