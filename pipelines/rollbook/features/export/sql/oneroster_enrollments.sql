-- enrollments.csv of OneRoster 1.2: the students and the teacher of each active class. Who was in a class on the first
-- landed day has no beginDate: nobody knows since when.
{% import "_oneroster.sql" as o with context %}
WITH persons AS ({{ o.students() }}),
-- An id that was given to another person may stay in a class: the one leaves it, and the other joins it, on that day.
joined AS (
    SELECT
        s.id, j.class_id, MAX(GREATEST(j.joined_on, s.first_day)) AS joined_on,
        ARG_MAX(j.is_from_before AND NOT s.is_reused, j.joined_on) AS is_from_before
    FROM persons AS s
    INNER JOIN main.enrollment_spans AS j
        ON j.student_id = s.student_id AND j.joined_on <= COALESCE(s.last_day, j.joined_on)
        AND COALESCE(j.left_on > s.first_day, TRUE)
    GROUP BY s.id, j.class_id
),
enrolled AS (
    SELECT
        s.id, e.class_id, LEAST(e.valid_to, s.valid_to) AS left_on, left_on IS NOT NULL AS gone,
        COALESCE(left_on, GREATEST(e.valid_from, s.first_day)) AS modified
    FROM persons AS s
    INNER JOIN history.student_classes AS e
        ON e.student_id = s.student_id AND e.valid_from <= COALESCE(s.last_day, e.valid_from)
        AND COALESCE(e.valid_to > s.first_day, TRUE)
    QUALIFY ROW_NUMBER() OVER (PARTITION BY s.id, e.class_id ORDER BY e.valid_from DESC) = 1
),
-- Who is in a class that opens again, or is listed again, is enrolled again.
openings AS (
    SELECT class_id, MAX(valid_from) AS opened
    FROM (
        SELECT
            class_id, valid_from, {{ o.closed }} AS is_closed,
            LAG(valid_to) OVER w IS DISTINCT FROM valid_from OR LAG({{ o.closed }}) OVER w AS is_turn
        FROM history.classes WINDOW w AS (PARTITION BY class_id ORDER BY valid_from)
    )
    WHERE is_turn AND NOT is_closed
    GROUP BY class_id
),
people AS (
    SELECT
        e.class_id, e.id AS person, 'student' AS role, '' AS is_primary,
        CASE WHEN NOT j.is_from_before THEN j.joined_on END AS began, e.gone OR c.gone AS gone,
        GREATEST(e.modified, CASE WHEN c.gone THEN c.modified WHEN NOT e.gone THEN o.opened END) AS modified
    FROM enrolled AS e
    INNER JOIN {{ o.classes() }} AS c ON c.class_id = e.class_id
    LEFT JOIN openings AS o ON o.class_id = e.class_id
    LEFT JOIN joined AS j ON j.id = e.id AND j.class_id = e.class_id
    UNION ALL
    SELECT class_id, 'teacher-' || teacher_id, 'teacher', 'true', NULL, gone, modified
    FROM {{ o.taught() }}
)
SELECT
    'enrollment-' || class_id || '-' || person AS "sourcedId", {{ o.state("gone", "modified") }},
    'class-' || class_id AS "classSourcedId", {{ o.school() }} AS "schoolSourcedId", person AS "userSourcedId", role,
    is_primary AS "primary", began AS "beginDate", {{ "CASE WHEN gone THEN modified END" if since else "''" }} AS "endDate"
FROM people
WHERE {{ o.wanted("gone", "modified") }}
ORDER BY class_id, role DESC, person
