-- The students who completed more assignments or assessments than were given.
SELECT student_id FROM main.student_summaries
WHERE completed_assignments > total_assignments OR completed_assessments > total_assessments
