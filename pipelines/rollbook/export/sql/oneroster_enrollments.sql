-- enrollments.csv of OneRoster 1.2: the students and the teacher of each active class. Who was in a class on the first
-- landed day has no beginDate: nobody knows since when.
{% import "_oneroster.sql" as o with context %}
WITH joined AS (
    SELECT student_id, class_id, MAX(joined_on) AS joined_on, ARG_MAX(is_from_before, joined_on) AS is_from_before
    FROM main.enrollment_spans
    GROUP BY student_id, class_id
),
people AS (
    SELECT
        e.class_id, 'student-' || e.student_id AS person, 'student' AS role, '' AS is_primary,
        CASE WHEN NOT j.is_from_before THEN j.joined_on END AS began, e.gone OR s.gone OR c.gone AS gone,
        GREATEST(e.modified, CASE WHEN s.gone THEN s.modified END, CASE WHEN c.gone THEN c.modified END) AS modified
    FROM {{ o.latest("student_classes", "student_id, class_id") }} AS e
    INNER JOIN {{ o.latest("students", "student_id") }} AS s ON s.student_id = e.student_id
    INNER JOIN {{ o.classes() }} AS c ON c.class_id = e.class_id
    LEFT JOIN joined AS j ON j.student_id = e.student_id AND j.class_id = e.class_id
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
