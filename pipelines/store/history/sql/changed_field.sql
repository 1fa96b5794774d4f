-- The changes of one column of {{ table }}, appended to changes.sql.
UNION ALL
SELECT valid_from, '{{ table }}', {{ student_id }}, {{ class_id }}, 'changed', '{{ column }}',
    CAST(previous_{{ column }} AS VARCHAR), CAST({{ column }} AS VARCHAR)
FROM versions WHERE before_to = valid_from AND {{ column }} IS DISTINCT FROM previous_{{ column }}
