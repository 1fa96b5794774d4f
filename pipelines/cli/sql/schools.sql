-- The schools, side by side
SELECT institution AS school, students, active_classes, average_completion_rate AS completion, completion_rank AS rank
FROM institutions_compared ORDER BY completion_rank
