-- measured: one row per reason: how often it was right in the past, and how long it lasts.
WITH units AS (FROM temp.units),
days AS (
    SELECT snapshot_date AS day, ROW_NUMBER() OVER (ORDER BY snapshot_date) AS number FROM spans.days
),
reasons AS (SELECT UNNEST($reasons) AS reason, UNNEST(RANGE(LEN($reasons))) AS place),
firsts AS (
    SELECT f.reason, u.period, u.student_id, u.ends_on, u.has_outcome, MIN(f.day) AS first_day
    FROM units AS u INNER JOIN temp.flagged AS f
        ON f.student_id = u.student_id AND f.day >= u.begins_on AND f.day < u.ends_on
    GROUP BY ALL
),
leads AS (
    SELECT
        f.*,
        b.student_id IS NOT NULL AS was_so_already,
        CASE
            WHEN (SELECT COUNT(*) FROM main.terms) = 0 THEN f.ends_on - f.first_day
            ELSE (
                SELECT CAST(SUM(GREATEST(LEAST(t.last_day, f.ends_on) - GREATEST(t.first_day - 1, f.first_day), 0)) AS BIGINT)
                FROM main.terms AS t
            )
        END AS lead_days
    FROM firsts AS f LEFT JOIN temp.below AS b ON b.student_id = f.student_id AND b.day = f.first_day
),
told AS (
    SELECT
        reason,
        COUNT(*) AS flagged,
        COUNT(*) FILTER (has_outcome) AS rightly,
        COUNT(*) FILTER (has_outcome AND was_so_already) AS already,
        MEDIAN(lead_days) FILTER (has_outcome) AS lead_days
    FROM leads GROUP BY reason
),
numbered AS (
    SELECT
        f.reason, f.student_id, f.day, d.number,
        d.number - ROW_NUMBER() OVER (PARTITION BY f.reason, f.student_id ORDER BY f.day) AS run
    FROM temp.flagged AS f INNER JOIN days AS d USING (day)
),
runs AS (
    SELECT reason, student_id, MIN(day) AS first_day, MAX(day) AS last_day, MAX(number) AS last_number
    FROM numbered GROUP BY reason, student_id, run
),
followed AS (
    SELECT *, LEAD(first_day) OVER (PARTITION BY reason, student_id ORDER BY first_day) AS next_day FROM runs
),
lasting AS (
    SELECT
        reason,
        MEDIAN(last_day - first_day + 1) AS lasts_days,
        COUNT(*) FILTER (last_number < (SELECT MAX(number) FROM days)) AS ended,
        COUNT(*) FILTER (next_day - last_day <= 7) AS back
    FROM followed GROUP BY reason
),
weekly AS (
    SELECT reason, COUNT(DISTINCT (student_id, DATE_TRUNC('week', day))) AS student_weeks FROM temp.flagged GROUP BY reason
)
SELECT
    r.reason,
    COALESCE(t.flagged, 0) AS flagged,
    COALESCE(t.rightly, 0) AS rightly,
    COALESCE(t.already, 0) AS already,
    (SELECT COUNT(*) FROM units WHERE has_outcome) AS outcomes,
    t.lead_days,
    l.lasts_days,
    COALESCE(l.ended, 0) AS ended,
    COALESCE(l.back, 0) AS back,
    COALESCE(w.student_weeks, 0) / (SELECT COUNT(DISTINCT DATE_TRUNC('week', day)) FROM days) AS a_week
FROM reasons AS r
LEFT JOIN told AS t USING (reason)
LEFT JOIN lasting AS l USING (reason)
LEFT JOIN weekly AS w USING (reason)
ORDER BY r.place
