-- Who was spoken to, from the lists of contacts: each line as long as it is in its month's list, and the id is not given
-- to another person. A line about an id that no student ever had is a finding.
CREATE OR REPLACE TEMP TABLE contact_lines AS
WITH said AS (
    SELECT
        CAST(l.who AS BIGINT) AS student_id,
        CAST(JSON_EXTRACT_STRING(l.cells, '$."on"') AS DATE) AS spoken_on,
        CAST(JSON_EXTRACT_STRING(l.cells, '$."until"') AS DATE) AS rests_until,
        JSON_EXTRACT_STRING(l.cells, '$."by"') AS noted_by,
        r.first_day, r.until, r.nth_run, l.who IN (SELECT CAST(student_id AS VARCHAR) FROM history.students) AS is_known
    FROM contact_runs AS r INNER JOIN spans.own_lines AS l ON l.digest = r.digest
),
-- Until when the id is of who was spoken to.
held AS (
    SELECT s.student_id, s.spoken_on, MIN(i.first_day) AS given_on
    FROM said AS s
    INNER JOIN main.student_identities AS i ON i.student_id = s.student_id AND i.first_day > s.spoken_on
    WHERE i.is_reused GROUP BY s.student_id, s.spoken_on
)
SELECT s.* REPLACE (LEAST(s.until, h.given_on) AS until)
FROM said AS s LEFT JOIN held AS h USING (student_id, spoken_on)
WHERE s.first_day < h.given_on OR h.given_on IS NULL;

INSERT INTO history.contacts
WITH each AS (
    SELECT
        *, nth_run - ROW_NUMBER() OVER (
            PARTITION BY student_id, spoken_on, rests_until, noted_by ORDER BY nth_run
        ) AS stretch
    FROM contact_lines WHERE is_known
)
SELECT
    student_id, spoken_on, rests_until, noted_by,
    MIN(first_day) AS valid_from, NULLIF(MAX(until), DATE 'infinity') AS valid_to
FROM each GROUP BY student_id, spoken_on, rests_until, noted_by, stretch
ORDER BY student_id, spoken_on, valid_from;

INSERT INTO main.contacts
SELECT student_id, spoken_on, rests_until, noted_by FROM history.contacts
WHERE valid_to IS NULL ORDER BY student_id, spoken_on;

INSERT INTO ops.list_findings
SELECT
    'unknown line', 'contacts', COUNT(*), MIN(first_day), (SELECT MAX(snapshot_date) FROM spans.days),
    FORMAT(
        'lines of contacted.csv whose student_id nobody has: {}{}',
        ARRAY_TO_STRING(LIST_SORT(LIST(DISTINCT student_id))[:5], ', '),
        CASE WHEN COUNT(DISTINCT student_id) > 5 THEN FORMAT(' and {:,} more', COUNT(DISTINCT student_id) - 5) ELSE '' END
    )
FROM contact_lines WHERE until = DATE 'infinity' AND NOT is_known HAVING COUNT(*) > 0
