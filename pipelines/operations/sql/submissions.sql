-- The classes whose students with and without submissions do not add up to those enrolled.
SELECT class_id FROM main.class_assignment_activity
WHERE students_with_submissions + students_without_submissions <> students_enrolled
