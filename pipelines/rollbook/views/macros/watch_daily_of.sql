-- watch_daily_of(students, from_day): the rows of watch_daily for a list of student ids, since a day or since the first.
{% import "_watch.sql" as watch with context %}
CREATE OR REPLACE MACRO main.watch_daily_of(students, from_day := NULL) AS TABLE
{{ watch.daily("SELECT UNNEST(CAST(" ~ m.own(version, "students") ~ " AS BIGINT[]))", at_once=true, from_day="from_day") }}
