-- What is wrong with the lists that count on the newest landed day: file and lines, never the text.
INSERT INTO ops.list_findings
WITH newest AS (SELECT MAX(snapshot_date) AS day FROM spans.days),
now_counts AS (SELECT r.* FROM own_runs AS r WHERE r.until = DATE 'infinity' AND r.digest <> ''),
lines AS (
    SELECT c.list, c.first_day, l.line, STRING_AGG(l.about, ' or ' ORDER BY l.rank) AS about
    FROM now_counts AS c INNER JOIN spans.own_lines AS l ON l.digest = c.digest
    GROUP BY c.list, c.first_day, l.line
),
taken AS (SELECT t.list, t.line, t.id FROM own_taken AS t SEMI JOIN now_counts USING (list, first_day) WHERE t.until = DATE 'infinity'),
shared AS (
    SELECT DISTINCT c.list, l.line
    FROM now_counts AS c
    INNER JOIN spans.own_lines AS l ON l.digest = c.digest AND l.about = 'email'
    INNER JOIN own_owners AS o ON o.about = 'email' AND o.who = LOWER(l.who) AND o.valid_to = DATE 'infinity'
    GROUP BY c.list, l.line HAVING COUNT(*) > 1
),
wrong AS (
    SELECT l.list, l.first_day, l.line, 'unknown line' AS kind, FORMAT('lines whose {} nobody has', l.about) AS what
    FROM lines AS l ANTI JOIN taken USING (list, line) ANTI JOIN shared USING (list, line)
    UNION ALL
    SELECT l.list, l.first_day, l.line, 'shared email', 'lines whose email several students have, so that they count for none'
    FROM lines AS l SEMI JOIN shared USING (list, line) ANTI JOIN taken USING (list, line)
    UNION ALL
    SELECT l.list, l.first_day, l.line, 'two lines', 'lines about somebody whom a later line is about, too: that one counts'
    FROM lines AS l
    WHERE (l.list, l.line) IN (
        SELECT (t.list, t.line) FROM taken AS t INNER JOIN taken AS later ON later.list = t.list AND later.id = t.id
        WHERE later.line > t.line
    )
)
SELECT
    kind, 'own_' || list, COUNT(*), MIN(first_day), (SELECT day FROM newest),
    FORMAT(
        '{} of own/{}.csv: {}{}', what, list, ARRAY_TO_STRING(LIST_SORT(LIST(line))[:5], ', '),
        CASE WHEN COUNT(*) > 5 THEN FORMAT(' and {:,} more', COUNT(*) - 5) ELSE '' END
    )
FROM wrong GROUP BY kind, list, what
UNION ALL
SELECT
    'unread list', 'own_' || o.list, COUNT(*), MIN(o.day), MAX(o.day),
    FORMAT('own/{}.csv could not be read: the rows of the last night that could stand', o.list)
FROM spans.own_days AS o
WHERE o.list <> '' AND o.digest IS NULL
GROUP BY o.list
