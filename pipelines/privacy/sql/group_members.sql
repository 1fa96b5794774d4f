-- One row per group (school, course, class) and student listed in it on a day.
{% import "_known.sql" as known with context %}
SELECT level, id, MIN(name) OVER (PARTITION BY level, id) AS name, student_id
FROM ({{ known.members() }})
ORDER BY level, id, student_id
