-- What is wrong with the lists that count on the newest landed day: file and lines, never the text.
INSERT INTO ops.list_findings
WITH newest AS (SELECT MAX(snapshot_date) AS day FROM spans.days),
current AS (SELECT * FROM own_runs WHERE until = DATE 'infinity' AND digest <> ''),
lines AS (
    SELECT c.list, c.first_day, k.line, ANY_VALUE(k.line_key) AS line_key, STRING_AGG(k.about, ' or ' ORDER BY k.rank) AS about
    FROM current AS c INNER JOIN own_keyed AS k ON k.digest = c.digest
    GROUP BY c.list, c.first_day, k.line
),
blank AS (
    SELECT c.list, c.first_day, l.line
    FROM current AS c INNER JOIN spans.own_lines AS l ON l.digest = c.digest
    GROUP BY c.list, c.first_day, l.line HAVING COUNT(l.who) = 0
),
taken AS (SELECT list, line_key, id, nth FROM own_taken WHERE until = DATE 'infinity'),
shared AS (
    SELECT c.list, k.line
    FROM current AS c
    INNER JOIN own_keyed AS k ON k.digest = c.digest AND k.about = 'email'
    INNER JOIN own_owners AS o ON o.about = 'email' AND o.who = k.who AND o.valid_to = DATE 'infinity'
    GROUP BY c.list, k.line HAVING COUNT(*) > 1
),
wrong AS (
    SELECT list, first_day, line, 'unknown line' AS kind, FORMAT('lines whose {} nobody has', about) AS what
    FROM lines ANTI JOIN taken USING (list, line_key) ANTI JOIN shared USING (list, line)
    UNION ALL
    SELECT list, first_day, line, 'unknown line', 'lines that do not say whom they are about' FROM blank
    UNION ALL
    SELECT list, first_day, line, 'shared email', 'lines whose email several students have, so that they count for none'
    FROM lines SEMI JOIN shared USING (list, line) ANTI JOIN taken USING (list, line_key)
    UNION ALL
    SELECT DISTINCT l.list, l.first_day, l.line, 'two lines', 'lines about somebody whom a later line is about, too: that one counts'
    FROM lines AS l
    INNER JOIN taken AS t USING (list, line_key)
    INNER JOIN taken AS later ON later.list = t.list AND later.id = t.id AND later.nth > t.nth
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
    'unread list', CASE WHEN is_contacts THEN 'contacts' ELSE 'own_' || list END, COUNT(*), MIN(day), MAX(day),
    FORMAT(
        '{} could not be read: the rows of the last night that could stand',
        CASE WHEN is_contacts THEN list ELSE FORMAT('own/{}.csv', list) END
    )
FROM (SELECT *, list = '{{ contacted }}' AS is_contacts FROM spans.own_days) AS o
WHERE list <> '' AND digest IS NULL GROUP BY list, is_contacts
