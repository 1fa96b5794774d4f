-- Every landed day, with the first later one on which the set {{ set }} was proven complete.
SELECT
    d.snapshot_date AS day,
    MIN(CASE WHEN p.day IS NOT NULL THEN d.snapshot_date END) OVER (
        ORDER BY d.snapshot_date ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) AS next_proven
FROM spans.days AS d LEFT JOIN spans.proven AS p ON p.day = d.snapshot_date AND p.set_name = '{{ set }}'
