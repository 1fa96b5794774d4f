-- Explore: of some classes those whose students are all among some students, or of which so many are others that an
-- average of the class tells of nobody.
SELECT c.class_id
FROM (SELECT UNNEST(CAST($classes AS BIGINT[])) AS class_id) AS c
LEFT JOIN main.student_classes AS e USING (class_id)
LEFT JOIN (SELECT UNNEST(CAST($students AS BIGINT[])) AS student_id) AS s ON s.student_id = e.student_id
GROUP BY c.class_id
HAVING COUNT(e.student_id) = COUNT(s.student_id) OR COUNT(e.student_id) - COUNT(s.student_id) >= $others
