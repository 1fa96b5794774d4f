-- Twenty-two questions that analysts ask, each followed by its query. Replace the dates and ids with your own.

-- Who is missing more assignments than at the end of last month?
SELECT p.student_id, p.name, b.assignment_missing_count AS missing_then, p.assignment_missing_count AS missing_now
FROM student_activity_as_of((SELECT DATE_TRUNC('month', MAX(snapshot_date)) - INTERVAL 1 DAY FROM progress_daily)) AS b
INNER JOIN student_progress AS p USING (student_id)
WHERE p.assignment_missing_count > b.assignment_missing_count
    AND p.assignment_submission_count >= b.assignment_submission_count -- else counted again since
ORDER BY p.assignment_missing_count - b.assignment_missing_count DESC, p.student_id;

-- What did class 9000's roster look like on the first of October?
SELECT s.student_id, s.name, s.reference_id
FROM student_classes_as_of(DATE '2026-10-01') AS e
INNER JOIN students_as_of(DATE '2026-10-01') AS s USING (student_id)
WHERE e.class_id = 9000
ORDER BY s.name;

-- Which fields of student 11273 changed, and when?
SELECT snapshot_date, table_name, class_id, change, column_name, old_value, new_value
FROM changes
WHERE student_id = 11273
ORDER BY snapshot_date, table_name, class_id, column_name;

-- Which students need attention first?
SELECT student_id, name, severity, reason, class_titles
FROM students_to_watch
ORDER BY severity DESC, student_id
LIMIT 25;

-- How many students of each class are to watch, and what share of the class is that?
SELECT
    r.class_id, r.class_title, COUNT(*) AS students, COUNT(w.student_id) AS to_watch,
    ROUND(100.0 * COUNT(w.student_id) / COUNT(*)) AS percent
FROM roster AS r LEFT JOIN students_to_watch AS w USING (student_id)
GROUP BY r.class_id, r.class_title
ORDER BY percent DESC, students DESC;

-- Who has never logged in, and which teacher can remind them?
SELECT p.name, p.email, r.class_title, r.teacher_name, r.teacher_email
FROM student_progress AS p LEFT JOIN roster AS r USING (student_id) -- keeps students without a class
WHERE NOT p.has_ever_logged_in
ORDER BY r.teacher_name NULLS FIRST, r.class_title, p.name;

-- Who has done nothing for two weeks, class by class?
SELECT r.class_title, p.name, p.last_activity_date, p.days_inactive
FROM student_progress AS p LEFT JOIN roster AS r USING (student_id) -- keeps students without a class
WHERE p.days_inactive >= 14 OR p.last_activity_date IS NULL -- NULL: no known activity
ORDER BY r.class_title NULLS FIRST, p.days_inactive DESC NULLS FIRST, p.name;

-- Which classes are furthest behind the average of their course?
SELECT class_title, teacher_name, student_count, average_completion_rate, course_completion_rate, completion_vs_course
FROM class_comparison
WHERE classes_in_course > 1
ORDER BY completion_vs_course
LIMIT 10;

-- Which teachers have the most students to watch?
SELECT r.teacher_name, COUNT(DISTINCT r.class_id) AS classes, COUNT(DISTINCT w.student_id) AS to_watch
FROM roster AS r INNER JOIN students_to_watch AS w USING (student_id)
GROUP BY r.teacher_id, r.teacher_name
ORDER BY to_watch DESC
LIMIT 10;

-- How did completion, score and activity develop over the last four weeks?
SELECT snapshot_date, students, average_completion_rate, average_score, active_percent
FROM progress_daily
WHERE snapshot_date > (SELECT MAX(snapshot_date) FROM progress_daily) - 28
ORDER BY snapshot_date;

-- How does this term compare with the terms before?
SELECT
    COALESCE(c.term, 'outside the terms') AS term, MIN(c.day) AS since, MAX(c.day) AS until, -- terms: see terms.csv
    ROUND(AVG(p.active_percent), 1) AS active_percent, ARG_MAX(p.students, c.day) AS students_at_the_end,
    ARG_MAX(p.average_completion_rate, c.day) AS completion_at_the_end,
    ARG_MAX(p.average_score, c.day) AS score_at_the_end
FROM calendar AS c INNER JOIN progress_daily AS p ON p.snapshot_date = c.day
GROUP BY c.term
ORDER BY since DESC;

-- How does each week of student 11133 compare with the four before it?
SELECT
    week_begins, submitted_change AS submitted, ROUND(AVG(submitted_change) OVER earlier, 1) AS usually_submitted,
    missing_change AS newly_missing, ROUND(AVG(missing_change) OVER earlier, 1) AS usually_missing,
    minutes_change AS minutes, ROUND(AVG(minutes_change) OVER earlier) AS usual_minutes, completion, average_score
FROM student_weekly
WHERE student_id = 11133
WINDOW earlier AS (ORDER BY week_begins ROWS BETWEEN 4 PRECEDING AND 1 PRECEDING)
ORDER BY week_begins DESC;

-- Which classes improved most within a week?
SELECT
    n.class_title, b.snapshot_date AS since, b.average_completion_rate AS before, n.average_completion_rate AS now,
    ROUND(n.average_completion_rate - b.average_completion_rate, 1) AS points
FROM class_daily AS n INNER JOIN class_daily AS b USING (class_id)
WHERE n.snapshot_date = (SELECT MAX(snapshot_date) FROM progress_daily) AND n.is_active
    -- The day a week before or, if nothing was landed on it, the last landed day before that.
    AND b.snapshot_date = (SELECT as_of_day(MAX(snapshot_date) - 7) FROM progress_daily)
ORDER BY points DESC NULLS LAST
LIMIT 10;

-- Who joined or left which class in the last week?
SELECT snapshot_date, change, class_title, name
FROM enrollment_changes
WHERE snapshot_date > (SELECT MAX(snapshot_date) FROM progress_daily) - 7
ORDER BY snapshot_date, class_title, change, name;

-- Which students left, came back or were new, and when?
SELECT c.snapshot_date, c.change, c.student_id, h.name -- the name on that day
FROM changes AS c
ASOF INNER JOIN history.students AS h ON h.student_id = c.student_id AND h.valid_from <= c.snapshot_date
WHERE c.table_name = 'students' AND c.change <> 'changed'
    AND c.snapshot_date > (SELECT MIN(snapshot_date) FROM progress_daily)
ORDER BY c.snapshot_date, c.change, c.student_id;

-- Which students are in no active class?
SELECT student_id, name, email, registration_date, last_activity_date
FROM student_progress
WHERE class_count = 0 -- NULL: unknown
ORDER BY name;

-- What was student 11133's record on the first of October, and what is it now?
SELECT 'on the first of October' AS as_of, completed_assignments, total_assignments, completion_rate, average_score
FROM student_summaries_as_of(DATE '2026-10-01')
WHERE student_id = 11133
UNION ALL
SELECT 'now', completed_assignments, total_assignments, completion_rate, average_score
FROM student_summaries
WHERE student_id = 11133;

-- Where does a class's own count differ from the students who list it?
SELECT c.class_id, c.class_title, c.student_count, COUNT(r.student_id) AS students_who_list_it
FROM classes AS c LEFT JOIN roster AS r USING (class_id)
WHERE c.class_status = 1
GROUP BY c.class_id, c.class_title, c.student_count
HAVING c.student_count <> COUNT(r.student_id)
ORDER BY ABS(c.student_count - COUNT(r.student_id)) DESC;

-- In which courses do students spend the most time?
SELECT
    c.course_name, CAST(SUM(c.student_count) AS BIGINT) AS places,
    ROUND(SUM(s.total_engagement_minutes) / SUM(c.student_count)) AS minutes_per_place
FROM classes AS c INNER JOIN class_summaries AS s USING (class_id)
WHERE c.class_status = 1
GROUP BY c.course_id, c.course_name
HAVING SUM(c.student_count) > 0
ORDER BY minutes_per_place DESC NULLS LAST;

-- Whose name or email address changed?
SELECT snapshot_date, student_id, column_name, old_value, new_value
FROM changes
WHERE table_name = 'students' AND column_name IN ('name', 'first_name', 'last_name', 'email')
ORDER BY snapshot_date, student_id;

-- What changed last night, field by field?
SELECT table_name, change, column_name, COUNT(*) AS times
FROM changes_between(
    (SELECT MAX(snapshot_date) - 1 FROM progress_daily), (SELECT MAX(snapshot_date) FROM progress_daily)
)
GROUP BY ALL
ORDER BY times DESC;

-- How did the last nights go?
SELECT snapshot_date, outcome, description
FROM sync_log
ORDER BY snapshot_date DESC
LIMIT 14;
