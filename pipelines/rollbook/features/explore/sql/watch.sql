-- Explore: the students to watch on a day, or only the new ones, without those who were spoken to, and rest; or only
-- these; or those who are no longer to watch.
-- `watching` are the rows of watch_daily on the day; who was spoken to is `resting`. A download also has each student's
-- classes, and since when.
{% import "_words.sql" as words %}
WITH watched AS (
    SELECT
        w.student_id, s.name AS student,
        COALESCE(w.severity, w.severity_before) AS severity,
        COALESCE(w.reason, w.reason_before) AS reason,
        CASE
            WHEN $show = 'spoken'
                THEN CONCAT('spoken to on ', r.on_day, ' by ' || NULLIF(r.noted_by, ''), ', back on ', r.until)
            WHEN w.change = 'newly to watch' THEN 'new'
            WHEN w.change = 'no longer to watch' THEN 'gone'
            ELSE 'as before'
        END AS change
    FROM watching AS w
    LEFT JOIN resting AS r USING (student_id)
    LEFT JOIN (
        SELECT student_id, ARG_MAX(name, valid_from) AS name FROM history.students GROUP BY student_id
    ) AS s USING (student_id)
    WHERE
        CASE $show
            WHEN 'new' THEN w.change = 'newly to watch' AND r.until IS NULL
            WHEN 'gone' THEN w.change = 'no longer to watch'
            WHEN 'spoken' THEN w.severity IS NOT NULL AND r.until IS NOT NULL
            ELSE w.severity IS NOT NULL AND r.until IS NULL
        END
        {% if flag %}
        AND w.{{ flag }}
        {% endif %}
        AND (COALESCE($class, $teacher, $course) IS NULL OR w.student_id IN (
            SELECT e.student_id
            FROM student_classes_as_of($day) AS e LEFT JOIN classes_as_of($day) AS c USING (class_id)
            WHERE ($class IS NULL OR e.class_id = $class) AND ($teacher IS NULL OR c.teacher_id = $teacher)
                AND ($course IS NULL OR c.course_id = $course)
        ))
        AND {{ words.held("s.name, w.reason, w.reason_before") }}
        {% if own_where %}
        AND w.student_id IN (SELECT o.student_id FROM main.students_own AS o WHERE {{ own_where }})
        {% endif %}
)
SELECT
    w.*
    {% if about %}
    , COALESCE(CAST(a.since AS VARCHAR), '{{ long_ago }}') AS since, a.classes
    {% endif %}
FROM watched AS w
{% if about %}
LEFT JOIN ({{ about }}) AS a USING (student_id)
{% endif %}
