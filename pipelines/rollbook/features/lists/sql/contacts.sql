-- Who was spoken to, from the lists of contacts: each line as long as it is in its month's list. A line about an id that
-- no student ever had is a finding.
CREATE OR REPLACE TEMP TABLE contact_lines AS
SELECT
    CAST(l.who AS BIGINT) AS student_id,
    CAST(JSON_EXTRACT_STRING(l.cells, '$."on"') AS DATE) AS spoken_on,
    CAST(JSON_EXTRACT_STRING(l.cells, '$."until"') AS DATE) AS rests_until,
    JSON_EXTRACT_STRING(l.cells, '$."by"') AS noted_by,
    r.first_day, r.until, r.nth_run, l.who IN (SELECT CAST(student_id AS VARCHAR) FROM history.students) AS is_known
FROM contact_runs AS r INNER JOIN spans.own_lines AS l ON l.digest = r.digest;

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
    'lines of contacted.csv whose student_id nobody has'
FROM contact_lines WHERE until = DATE 'infinity' AND NOT is_known HAVING COUNT(*) > 0
