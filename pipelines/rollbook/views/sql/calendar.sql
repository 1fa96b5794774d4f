-- calendar: One row per date from the first landed day to the newest: its week, its term, and whether it was landed.
-- key: day
--
--   day             The date. Join it with snapshot_date.
--   iso_year        The year of its ISO week.
--   iso_week        Its ISO week, 1 to 53.
--   week_begins     The Monday of its week.
--   weekday         1 = Monday, 7 = Sunday.
--   weekday_name    Monday to Sunday.
--   is_weekend      Whether it is a Saturday or a Sunday.
--   term            Its term, from terms.csv; NULL outside all terms.
--   term_week       Its calendar week within the term, from 1; NULL outside all terms.
--   is_landed       Whether the day was landed. If not, it is a gap: nothing is known of that day itself.
--   is_proven       Whether students and classes were both proven complete; if not, nothing was removed. NULL for a gap.
WITH bounds AS (SELECT MIN(snapshot_date) AS first_day, MAX(snapshot_date) AS newest FROM spans.days),
dates AS (
    SELECT CAST(UNNEST(GENERATE_SERIES(first_day, newest, INTERVAL 1 DAY)) AS DATE) AS day FROM bounds
),
proven AS (
    SELECT day, BOOL_OR(set_name = 'students') AND BOOL_OR(set_name = 'classes') AS is_proven
    FROM spans.proven GROUP BY day
)
SELECT
    d.day,
    ISOYEAR(d.day) AS iso_year,
    WEEKOFYEAR(d.day) AS iso_week,
    CAST(DATE_TRUNC('week', d.day) AS DATE) AS week_begins,
    ISODOW(d.day) AS weekday,
    DAYNAME(d.day) AS weekday_name,
    ISODOW(d.day) >= 6 AS is_weekend,
    t.name AS term,
    (CAST(DATE_TRUNC('week', d.day) AS DATE) - CAST(DATE_TRUNC('week', t.first_day) AS DATE)) // 7 + 1 AS term_week,
    l.snapshot_date IS NOT NULL AS is_landed,
    CASE WHEN l.snapshot_date IS NOT NULL THEN COALESCE(p.is_proven, FALSE) END AS is_proven
FROM dates AS d
LEFT JOIN spans.days AS l ON l.snapshot_date = d.day
LEFT JOIN proven AS p ON p.day = d.day
LEFT JOIN main.terms AS t ON d.day BETWEEN t.first_day AND t.last_day
ORDER BY d.day
