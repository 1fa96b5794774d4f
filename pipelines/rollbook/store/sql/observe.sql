-- One set's observations of a day: a record is stated if any landing states it, else refused; a table is not
-- stated if no statement states it. A record that was absent earlier on the day had no rows, so a table that is not stated
-- since then is empty for it, and a record that is only refused since then is absent.
INSERT INTO observed
WITH states AS (
    SELECT id, BOOL_OR(state = 'stated') AS is_stated
    FROM seen
    WHERE state = 'stated' OR (state = 'rejected' AND NOT was_absent)
    GROUP BY id
),
statements AS (SELECT id, ord FROM seen WHERE state = 'stated'),
not_stated AS (
    SELECT s.id, s.table_name, CASE WHEN BOOL_OR(s.was_absent) THEN 'empty' ELSE 'not_stated' END AS state
    FROM seen AS s
    WHERE s.state = 'not_stated'
    GROUP BY s.id, s.table_name
    HAVING COUNT(DISTINCT s.ord) = (SELECT COUNT(DISTINCT t.ord) FROM statements AS t WHERE t.id = s.id)
)
SELECT $set_name, id, CASE WHEN is_stated THEN 'stated' ELSE 'rejected' END, NULL FROM states
UNION ALL
SELECT $set_name, id, state, table_name FROM not_stated
UNION ALL
SELECT DISTINCT $set_name, a.id, 'absent', NULL
FROM absent AS a ANTI JOIN states AS s ON s.id = a.id
WHERE a.set_name = $set_name
