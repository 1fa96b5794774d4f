-- One row per group and student listed in it on a day: the school, its courses, its classes.
{% import "_known.sql" as known with context %}
SELECT level, id, MIN(name) OVER (PARTITION BY level, id) AS name, student_id
FROM ({{ known.members() }})
ORDER BY level, id, student_id
