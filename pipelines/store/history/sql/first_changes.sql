-- The changes of {{ table.name }} on the very first landed day: every row is added.
INSERT INTO main.changes BY NAME
SELECT
    {% for key in change_keys if key in table.key %}
    {{ key }},
    {% endfor %}
    snapshot_date, '{{ table.name }}' AS table_name, 'added' AS change
FROM ({{ rows }}) AS r
