-- students_own: One row per student, with the columns of the school's own lists about students; no rows without lists.
-- key: student_id
--
-- A column that several lists have is named <list>_<column>.
--
--   student_id   The student.
SELECT student_id FROM main.students WHERE FALSE
