-- The spans of {{ table }} from the whole lake: consecutive landed days on which a record stated the same, as one run.
--
-- Rows are wide and days are many, so what a record said on a day is first made one number; the rows themselves are
-- read again for the days on which a run begins, and for no other.
INSERT INTO spans.{{ table }}
WITH days AS (
    SELECT
        snapshot_date, ROW_NUMBER() OVER (ORDER BY snapshot_date) AS ord,
        CASE WHEN snapshot_date < MAX(snapshot_date) OVER () THEN snapshot_date END AS last_day
    FROM spans.days
),
observed AS NOT MATERIALIZED ({{ observations }}),
signed AS ({{ signed }}),
marked AS (
    SELECT
        s.{{ parent }}, d.snapshot_date, d.ord, d.last_day,
        LAG(d.ord) OVER w = d.ord - 1 AND LAG(s.said) OVER w = s.said AS goes_on,
        LEAD(d.ord) OVER w = d.ord + 1 AND LEAD(s.said) OVER w = s.said AS is_followed
    FROM signed AS s INNER JOIN days AS d USING (snapshot_date)
    WINDOW w AS (PARTITION BY s.{{ parent }} ORDER BY d.ord)
),
edges AS (
    SELECT *, LEAD(last_day) OVER (PARTITION BY {{ parent }} ORDER BY ord) AS end_day
    FROM marked WHERE goes_on IS NOT TRUE OR is_followed IS NOT TRUE
),
runs AS (
    SELECT
        {{ parent }}, snapshot_date AS first_day, CASE WHEN is_followed THEN end_day ELSE last_day END AS last_day
    FROM edges WHERE goes_on IS NOT TRUE
)
SELECT {{ columns }}, o.span_state, r.first_day, r.last_day
FROM runs AS r INNER JOIN observed AS o ON o.{{ parent }} = r.{{ parent }} AND o.snapshot_date = r.first_day
