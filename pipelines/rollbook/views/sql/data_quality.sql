-- data_quality: One row per finding: missing or contradictory data, refused records, missing or failed nights.
-- key: kind, about (may be NULL), since, description
--
-- Contradictions (count mismatch, unlisted class, more completed than given, submissions) are those of the newest
-- landed day. Missing data, refused records and gaps stay in the list, with their last day. Texts hold ids, no names.
--
--   kind         The kind of finding: not stated, count mismatch, hidden, reject, refused value, id_reused, gap and so on.
--   about        The set or table that it is about; NULL if it is about whole nights.
--   how_many     How many students, classes, records, days or syncs.
--   since        Its first day; for contradictions, the first day of the oldest one.
--   last_seen    Its last day.
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
identities AS (SELECT student_id, person, first_day, is_reused, linked_by FROM main.student_identities),
persons AS (
    SELECT
        person, MAX(first_day) AS since, MIN(student_id) AS first_id,
        STRING_AGG(CAST(student_id AS VARCHAR), ' and ' ORDER BY first_day, student_id) AS ids,
        ROW_NUMBER() OVER (ORDER BY MIN(student_id)) AS number
    FROM identities WHERE linked_by IS NOT NULL
    GROUP BY person HAVING COUNT(DISTINCT student_id) > 1
),
missing AS (
    SELECT day, day - CAST(ROW_NUMBER() OVER (ORDER BY day) AS INTEGER) AS island FROM main.calendar WHERE NOT is_landed
)
{% macro ids(column) -%}
ARRAY_TO_STRING(LIST_SORT(LIST({{ column }}))[:5], ', ')
    || CASE WHEN COUNT(*) > 5 THEN FORMAT(' and {:,} more', COUNT(*) - 5) ELSE '' END
{%- endmacro %}
{% macro newest_day(rows) -%}
(SELECT day FROM newest)
{%- endmacro %}
{% for table in unstated %}
SELECT
    'not stated' AS kind,
    '{{ table.name }}' AS about,
    COUNT(DISTINCT id) AS how_many,
    MIN(since) AS since,
    MAX(until) AS last_seen,
    FORMAT(
        '{{ table.field }} was left out of the records, on the newest landed day of {:,} {{ table.set }};'
        || ' what was known stands',
        COUNT(DISTINCT id) FILTER (until = (SELECT day FROM newest))
    ) AS description
FROM not_stated_{{ table.name }} WHERE since <= until
HAVING COUNT(*) > 0
UNION ALL
{% endfor %}
SELECT
    'count mismatch', 'classes', COUNT(*), MIN(since), {{ newest_day("mismatched") }},
    'student_count is not the number of students who list the class: ' || {{ ids("class_id") }}
FROM mismatched HAVING COUNT(*) > 0
UNION ALL
SELECT
    'unlisted class', 'student_classes', COUNT(*), MIN(since), {{ newest_day("unlisted") }},
    'students list the class, the class list does not have it: ' || {{ ids("class_id") }}
FROM unlisted HAVING COUNT(*) > 0
UNION ALL
SELECT
    'more completed than given', 'student_summaries', COUNT(*), MIN(valid_from), {{ newest_day("student_summaries") }},
    'students completed more assignments or assessments than were given: ' || {{ ids("student_id") }}
FROM history.student_summaries
WHERE valid_to IS NULL
    AND (completed_assignments > total_assignments OR completed_assessments > total_assessments)
HAVING COUNT(*) > 0
UNION ALL
SELECT
    'submissions', 'class_assignment_activity', COUNT(*), MIN(valid_from), {{ newest_day("class_assignment_activity") }},
    'students with and without submissions are not the students enrolled: ' || {{ ids("class_id") }}
FROM history.class_assignment_activity
WHERE valid_to IS NULL AND students_with_submissions + students_without_submissions <> students_enrolled
HAVING COUNT(*) > 0
UNION ALL
SELECT
    'hidden', h.set_name, h.hidden, h.hidden_since, h.snapshot_date,
    FORMAT(
        '{:,} {} stay current because a search finds them, though the service has listed them nowhere since {}',
        h.hidden, h.set_name, h.hidden_since
    )
FROM ops.sync_sets AS h
INNER JOIN (
    SELECT MAX((s.snapshot_date, s.landing)) AS last
    FROM ops.syncs AS s WHERE s.outcome = 'synced'
) AS l ON (h.snapshot_date, h.landing) = l.last
WHERE h.hidden > 0
UNION ALL
SELECT
    'reject', set_name,
    COUNT(DISTINCT id) + COUNT(DISTINCT CASE WHEN id IS NULL THEN (page, position) END),
    MIN(snapshot_date), MAX(snapshot_date), reason
FROM ops.rejects GROUP BY set_name, reason
UNION ALL
SELECT
    'refused value', table_name, COUNT(DISTINCT id), MIN(snapshot_date), MAX(snapshot_date),
    FORMAT('{}: {}', column_name, reason)
FROM ops.refused_values GROUP BY table_name, column_name, reason
UNION ALL
{% for table, column in percents %}
SELECT
    'above 100', '{{ table.name }}', COUNT(*), MIN(valid_from), {{ newest_day(table.name) }},
    '{{ column.name }} is above 100, as with extra credit: ' || {{ ids(table.parent_key) }}
FROM history.{{ table.name }} WHERE valid_to IS NULL AND {{ column.name }} > 100 HAVING COUNT(*) > 0
UNION ALL
{% endfor %}
SELECT
    'id_reused', 'students', COUNT(*), MIN(first_day), {{ newest_day("i") }},
    '{{ identities.words }}: ' || {{ ids("student_id") }}
FROM identities AS i WHERE is_reused HAVING COUNT(*) > 0
UNION ALL
SELECT
    'same_person', 'students', COUNT(*), MIN(since), {{ newest_day("p") }},
    'two or more ids with one reference id, or one email and name, so perhaps one person''s: '
    || STRING_AGG(ids, '; ' ORDER BY first_id) FILTER (number <= 5)
    || CASE WHEN COUNT(*) > 5 THEN FORMAT(' and {:,} more', COUNT(*) - 5) ELSE '' END
FROM persons AS p HAVING COUNT(*) > 0
UNION ALL
SELECT
    'drift', set_name, ARG_MAX(count, (snapshot_date, landing)), MIN(snapshot_date), MAX(snapshot_date),
    FORMAT('unknown field {} ({})', field, type)
FROM ops.drift GROUP BY set_name, field, type
UNION ALL
SELECT
    'gap', NULL, COUNT(*), MIN(day), MAX(day), 'no landing: nothing is known of these days by themselves'
FROM missing GROUP BY island
UNION ALL
{% for table in walked %}
SELECT
    'unproven', '{{ table.set }}', COUNT(*), MIN(d.day), MAX(d.day),
    'not proven complete: nothing was removed on these nights'
FROM landed AS d
ANTI JOIN (SELECT day FROM spans.proven WHERE set_name = '{{ table.set }}') AS p USING (day)
-- Before its first record the set may not have been declared.
WHERE d.day >= (SELECT MIN(s.first_day) FROM spans.{{ table.name }} AS s)
HAVING COUNT(*) > 0
UNION ALL
{% endfor %}
SELECT
    outcome, NULL, COUNT(*), MIN(snapshot_date), MAX(snapshot_date),
    CASE outcome
        WHEN 'held' THEN 'syncs held: they would change more than a normal night, and wait for a person'
        WHEN 'failed' THEN 'syncs failed: readers kept what was published before'
        ELSE 'syncs discarded: they count for nothing'
    END
FROM ops.syncs WHERE outcome <> 'synced' GROUP BY outcome
