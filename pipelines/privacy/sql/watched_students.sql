-- The students to watch on a day, by the current thresholds.
SELECT student_id FROM students_to_watch_as_of(CAST($day AS DATE))
