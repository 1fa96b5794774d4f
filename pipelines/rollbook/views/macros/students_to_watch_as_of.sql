-- students_to_watch_as_of(day): the students to watch on the last landed day on or before that day.
{% import "_watch.sql" as watch with context %}
CREATE OR REPLACE MACRO main.students_to_watch_as_of(day) AS TABLE
WITH asked AS (
    SELECT MAX(snapshot_date) AS on_day FROM spans.days WHERE snapshot_date <= {{ m.landed(version, "day") }}
),
{{ watch.on_list() }}
