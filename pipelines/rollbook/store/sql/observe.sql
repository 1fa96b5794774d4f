-- One set's observations of a day: a record is stated if any landing states it, else refused; a table is not
-- stated if no statement states it. A record that was absent earlier on the day had no rows, so what is not stated or
-- refused since then has none.
INSERT INTO observed
WITH states AS (
    SELECT id, BOOL_OR(state = 'stated') AS is_stated
    FROM seen
    WHERE state = 'stated' OR (state = 'rejected' AND NOT was_absent)
    GROUP BY id
),
statements AS (SELECT id, ord FROM seen WHERE state = 'stated'),
not_stated AS (
    SELECT s.id, s.table_name
    FROM seen AS s
    WHERE s.state = 'not_stated' AND NOT s.was_absent
    GROUP BY s.id, s.table_name
    HAVING COUNT(DISTINCT s.ord) = (SELECT COUNT(DISTINCT t.ord) FROM statements AS t WHERE t.id = s.id)
)
SELECT $set_name, id, CASE WHEN is_stated THEN 'stated' ELSE 'rejected' END, NULL FROM states
UNION ALL
SELECT $set_name, id, 'not_stated', table_name FROM not_stated
