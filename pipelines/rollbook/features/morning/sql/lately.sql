-- The completion of some students in the 28 days up to a day, in steps: how many days ago each began, and its value.
SELECT
    student_id,
    LIST(
        (DATEDIFF('day', GREATEST(valid_from, CAST($day AS DATE) - 28), CAST($day AS DATE)), completion_rate)
        ORDER BY valid_from
    ) AS completion
FROM history.student_summaries
WHERE total_assignments > 0 AND completion_rate IS NOT NULL AND valid_from <= CAST($day AS DATE)
    AND (valid_to IS NULL OR valid_to > CAST($day AS DATE) - 28)
    AND student_id IN ({{ students }})
GROUP BY student_id
