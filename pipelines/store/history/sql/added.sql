-- main.changes of {{ table }} on the first day of all: every row is added.
INSERT INTO main.changes
SELECT valid_from, '{{ table }}', {{ student_id }}, {{ class_id }}, 'added', NULL, NULL, NULL FROM history.{{ table }}
