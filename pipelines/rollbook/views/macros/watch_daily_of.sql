-- watch_daily_of(students): the rows of watch_daily for a list of student ids.
{% import "_watch.sql" as watch with context %}
CREATE OR REPLACE MACRO main.watch_daily_of(students) AS TABLE
{{ watch.daily("SELECT UNNEST(CAST(" ~ m.own(version, "students") ~ " AS BIGINT[]))") }}
