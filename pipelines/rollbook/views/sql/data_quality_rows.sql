-- data_quality_rows: One row per finding of data_quality and student or class that it is about.
-- key: kind, about, student_id (may be NULL), class_id (may be NULL), description
--
-- Findings about nobody in particular are in data_quality alone: gaps, failed nights, unknown fields, and records whose
-- id could not be read.
--
--   kind         The kind of finding, as in data_quality.
--   about        The set or table that it is about.
--   student_id   The student; NULL if it is about a class.
--   class_id     The class; NULL if it is about a student.
--   since        Its first day for this student or class.
--   last_seen    Its last day for this student or class.
--   description  What was found, in words.
{% import "_identities.sql" as identities with context %}
WITH landed AS (
    SELECT snapshot_date AS day, LAG(snapshot_date) OVER w AS before, LEAD(snapshot_date) OVER w AS after
    FROM spans.days WINDOW w AS (ORDER BY snapshot_date)
),
newest AS (SELECT MAX(day) AS day FROM landed),
{% for table in unstated %}
-- The spans in which records did not state {{ table.name }}, without the days at both ends on which they were refused.
refused_{{ table.name }} AS (
    SELECT {{ table.parent_key }} AS id, first_day, COALESCE(last_day, DATE 'infinity') AS last_day
    FROM spans.{{ own(table) }} WHERE span_state = 'not_stated'
),
not_stated_{{ table.name }} AS (
    SELECT
        r.{{ table.parent_key }} AS id,
        CASE WHEN f.id IS NULL THEN r.first_day ELSE a.after END AS since,
        CASE WHEN l.id IS NULL THEN COALESCE(r.last_day, n.day) ELSE b.before END AS until
    FROM spans.{{ table.name }} AS r CROSS JOIN newest AS n
    LEFT JOIN refused_{{ table.name }} AS f
        ON f.id = r.{{ table.parent_key }} AND r.first_day BETWEEN f.first_day AND f.last_day
    LEFT JOIN landed AS a ON a.day = f.last_day
    LEFT JOIN refused_{{ table.name }} AS l
        ON l.id = r.{{ table.parent_key }} AND COALESCE(r.last_day, n.day) BETWEEN l.first_day AND l.last_day
    LEFT JOIN landed AS b ON b.day = l.first_day
    WHERE r.span_state = 'not_stated'
),
{% endfor %}
-- The active classes whose student_count differs from the number of students who list them, and since when.
counts AS (SELECT class_id, COUNT(*) AS listed FROM main.student_classes GROUP BY class_id),
differing AS (
    SELECT c.class_id
    FROM main.classes AS c LEFT JOIN counts AS l USING (class_id)
    WHERE c.class_status = 1 AND c.student_count <> COALESCE(l.listed, 0)
),
members AS (
    SELECT class_id, day, SUM(SUM(n)) OVER (PARTITION BY class_id ORDER BY day) AS listed
    FROM (
        SELECT class_id, UNNEST([valid_from, valid_to]) AS day, UNNEST([1, -1]) AS n
        FROM history.student_classes SEMI JOIN differing USING (class_id)
    )
    WHERE day IS NOT NULL GROUP BY class_id, day
),
moments AS (
    SELECT class_id, day FROM members
    UNION
    SELECT class_id, UNNEST([valid_from, valid_to]) FROM history.classes SEMI JOIN differing USING (class_id)
),
compared AS (
    SELECT
        p.class_id, p.day,
        COALESCE(c.valid_to > p.day, TRUE) AND c.class_status = 1 AND c.student_count <> COALESCE(m.listed, 0) AS differs
    FROM moments AS p
    ASOF INNER JOIN history.classes AS c ON c.class_id = p.class_id AND c.valid_from <= p.day
    ASOF LEFT JOIN members AS m ON m.class_id = p.class_id AND m.day <= p.day
    WHERE p.day IS NOT NULL
),
mismatched AS (
    SELECT c.class_id, MIN(c.day) AS since
    FROM compared AS c
    LEFT JOIN (SELECT class_id, MAX(day) AS day FROM compared WHERE differs IS NOT TRUE GROUP BY class_id) AS r
        ON r.class_id = c.class_id
    WHERE r.day IS NULL OR c.day > r.day
    GROUP BY c.class_id
),
unlisted AS (
    SELECT e.class_id, GREATEST(MIN(c.snapshot_date), MAX(h.valid_to)) AS since
    FROM (SELECT * FROM main.student_classes ANTI JOIN main.classes USING (class_id)) AS e
    INNER JOIN (
        SELECT student_id, class_id, MAX(snapshot_date) AS snapshot_date
        FROM main.changes WHERE table_name = 'student_classes' AND change IN ('added', 'returned')
        GROUP BY student_id, class_id
    ) AS c ON c.student_id = e.student_id AND c.class_id = e.class_id
    LEFT JOIN history.classes AS h ON h.class_id = e.class_id
    GROUP BY e.class_id
),
identities AS (SELECT student_id, person, first_day, is_reused, linked_by FROM main.student_identities)
{% macro of_student(id) -%}
{{ id }} AS student_id, CAST(NULL AS BIGINT) AS class_id
{%- endmacro %}
{% macro of_class(id) -%}
CAST(NULL AS BIGINT) AS student_id, {{ id }} AS class_id
{%- endmacro %}
{% macro of_record(table, id) -%}
{{ of_student(id) if table.parent_key == "student_id" else of_class(id) }}
{%- endmacro %}
{#- The current rows of a table, each with the day since which its record is as it is. -#}
{% macro current(table, key) -%}
main.{{ table }}
INNER JOIN (SELECT {{ m.names(key) }}, valid_from FROM history.{{ table }} WHERE valid_to IS NULL) USING ({{ m.names(key) }})
{%- endmacro %}
{% macro of_set(set) -%}
CASE WHEN {{ set }} <> 'classes' THEN id END, CASE WHEN {{ set }} = 'classes' THEN id END
{%- endmacro %}
{% for table in unstated %}
SELECT
    'not stated' AS kind, '{{ table.name }}' AS about, {{ of_record(table, "id") }},
    MIN(since) AS since, MAX(until) AS last_seen, '{{ table.field }} was left out of the records' AS description
FROM not_stated_{{ table.name }} WHERE since <= until
GROUP BY id
UNION ALL
{% endfor %}
SELECT
    'count mismatch', 'classes', {{ of_class("class_id") }}, since, n.day,
    'student_count is not the number of students who list the class'
FROM mismatched CROSS JOIN newest AS n
UNION ALL
SELECT
    'unlisted class', 'student_classes', {{ of_class("class_id") }}, since, n.day,
    'students list the class, the class list does not have it'
FROM unlisted CROSS JOIN newest AS n
UNION ALL
SELECT
    'more completed than given', 'student_summaries', {{ of_student("student_id") }}, valid_from, n.day,
    'students completed more assignments or assessments than were given'
FROM {{ current("student_summaries", ["student_id"]) }} CROSS JOIN newest AS n
WHERE completed_assignments > total_assignments OR completed_assessments > total_assessments
UNION ALL
SELECT
    'submissions', 'class_assignment_activity', {{ of_class("class_id") }}, valid_from, n.day,
    'students with and without submissions are not the students enrolled'
FROM {{ current("class_assignment_activity", ["class_id"]) }} CROSS JOIN newest AS n
SEMI JOIN (SELECT class_id FROM main.classes WHERE class_status = 1) AS c USING (class_id)
WHERE students_with_submissions + students_without_submissions <> students_enrolled
UNION ALL
{% for table, column in percents %}
SELECT
    'above 100', '{{ table.name }}', {{ of_record(table, table.parent_key) }}, valid_from, n.day,
    '{{ column.name }} is above 100, as with extra credit'
FROM {{ current(table.name, table.key) }} CROSS JOIN newest AS n WHERE {{ column.name }} > 100
UNION ALL
{% endfor %}
SELECT
    'not registered', 'students', {{ of_student("student_id") }}, valid_from, n.day,
    'students are listed though the service says that they are not registered'
FROM history.students CROSS JOIN newest AS n WHERE valid_to IS NULL AND is_registered = 0
UNION ALL
-- A day of grace: the service's zone may be ahead. Such a student looks active for as long as the date lies ahead.
{% for table, column in (
    ("student_summaries", "last_activity_date"),
    ("student_activity", "last_activity_date"),
    ("student_activity", "first_login_date"),
) %}
SELECT
    'in the future', '{{ table }}', {{ of_student("student_id") }}, valid_from, n.day,
    '{{ column }} lies after the landed day'
FROM {{ current(table, ["student_id"]) }} CROSS JOIN newest AS n WHERE {{ column }} > n.day + 1
UNION ALL
{% endfor %}
SELECT 'id_reused', 'students', {{ of_student("student_id") }}, first_day, n.day, '{{ identities.words }}'
FROM identities CROSS JOIN newest AS n WHERE is_reused
UNION ALL
SELECT
    'same_person', 'students', {{ of_student("i.student_id") }}, p.since, n.day,
    FORMAT('one of {} ids with one reference id, or one email and name, so perhaps one person''s: {}', p.ids, p.listed)
FROM identities AS i
INNER JOIN (
    SELECT
        person, MAX(first_day) AS since, COUNT(DISTINCT student_id) AS ids,
        STRING_AGG(CAST(student_id AS VARCHAR), ' and ' ORDER BY first_day, student_id) AS listed
    FROM identities WHERE linked_by IS NOT NULL
    GROUP BY person HAVING COUNT(DISTINCT student_id) > 1
) AS p USING (person)
CROSS JOIN newest AS n
WHERE i.linked_by IS NOT NULL
UNION ALL
SELECT 'reject', set_name, {{ of_set("set_name") }}, MIN(snapshot_date), MAX(snapshot_date), reason
FROM ops.rejects WHERE id IS NOT NULL AND set_name <> 'institution' GROUP BY set_name, reason, id
UNION ALL
SELECT
    'refused value', table_name, {{ of_set("set_name") }}, MIN(snapshot_date), MAX(snapshot_date),
    FORMAT('{}: {}', column_name, reason)
FROM ops.refused_values WHERE id IS NOT NULL AND set_name <> 'institution'
GROUP BY table_name, set_name, column_name, reason, id
