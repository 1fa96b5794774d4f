-- The changes of a row of {{ table.name }} up to a day, the newest first: of one column, if given, and of the whole row.
SELECT
    snapshot_date, change, column_name,
    CASE WHEN column_name IN (SELECT UNNEST($hidden)) THEN '(not shown)' ELSE old_value END,
    CASE WHEN column_name IN (SELECT UNNEST($hidden)) THEN '(not shown)' ELSE new_value END
FROM main.changes
WHERE table_name = '{{ table.name }}' AND snapshot_date <= $on AND COALESCE(column_name = $column, TRUE)
    {% for k in keys %}
    AND {{ k }} = $key[{{ loop.index }}]
    {% else %}
    AND LEN($key) = 1 -- the institution's table has one row, and its key is no column of the changes
    {% endfor %}
ORDER BY snapshot_date DESC, column_name LIMIT {{ most }}
