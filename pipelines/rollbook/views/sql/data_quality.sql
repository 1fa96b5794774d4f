-- data_quality: One row per finding: missing or contradictory data, refused records, missing or failed nights.
-- key: kind, about (may be NULL), since, description
--
-- Whom a finding is about is in data_quality_rows.
--
-- Contradictions (count mismatch, unlisted class, more completed than given, submissions, in the future, not registered)
-- are those of the newest landed day. Missing data, refused records and gaps stay in the list, with their last day.
-- Texts hold ids, no names.
--
--   kind         The kind of finding: not stated, count mismatch, hidden, in the future, reject, refused value, gap and so on.
--   about        The set or table that it is about; NULL if it is about whole nights.
--   how_many     How many students, classes, records, days or syncs.
--   since        Its first day; for contradictions, the first day of the oldest one.
--   last_seen    Its last day.
--   description  What was found, in words.
WITH landed AS (SELECT snapshot_date AS day FROM spans.days),
newest AS (SELECT MAX(day) AS day FROM landed),
missing AS (
    SELECT day, day - CAST(ROW_NUMBER() OVER (ORDER BY day) AS INTEGER) AS island FROM main.calendar WHERE NOT is_landed
),
-- The findings about students or classes, together.
gathered AS (
    SELECT
        kind, about, description, COUNT(*) AS how_many, MIN(since) AS since, MAX(last_seen) AS last_seen,
        COUNT(*) FILTER (last_seen = (SELECT day FROM newest)) AS still,
        CASE WHEN ANY_VALUE(class_id) IS NULL THEN 'students' ELSE 'classes' END AS who,
        ARRAY_TO_STRING(LIST_SORT(LIST(COALESCE(student_id, class_id)))[:5], ', ')
            || CASE WHEN COUNT(*) > 5 THEN FORMAT(' and {:,} more', COUNT(*) - 5) ELSE '' END AS ids
    FROM main.data_quality_rows WHERE kind NOT IN ('same_person', 'reject', 'refused value')
    GROUP BY kind, about, description
),
persons AS (
    SELECT description, MAX(since) AS since, MIN(student_id) AS first_id, ROW_NUMBER() OVER (ORDER BY MIN(student_id)) AS number
    FROM main.data_quality_rows WHERE kind = 'same_person' GROUP BY description
)
SELECT
    kind, about, how_many, since, last_seen,
    description || CASE kind
        WHEN 'not stated' THEN FORMAT(', on the newest landed day of {:,} {}; what was known stands', still, who)
        ELSE ': ' || ids
    END AS description
FROM gathered
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
SELECT
    'same_person', 'students', COUNT(*), MIN(since), (SELECT day FROM newest),
    'two or more ids with one reference id, or one email and name, so perhaps one person''s: '
    || STRING_AGG(SPLIT_PART(description, ': ', 2), '; ' ORDER BY first_id) FILTER (number <= 5)
    || CASE WHEN COUNT(*) > 5 THEN FORMAT(' and {:,} more', COUNT(*) - 5) ELSE '' END
FROM persons HAVING COUNT(*) > 0
UNION ALL
SELECT
    'drift', set_name, ARG_MAX(count, (snapshot_date, landing)), MIN(snapshot_date), MAX(snapshot_date),
    FORMAT('unknown field {} ({})', field, type)
FROM ops.drift GROUP BY set_name, field, type
UNION ALL
SELECT kind, about, how_many, since, last_seen, description FROM ops.list_findings
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
