-- watch_daily_of_class(class): the rows of watch_daily for the students whose records now list a class.
{% import "_watch.sql" as watch with context %}
{% set class = m.own(version, "class") %}
CREATE OR REPLACE MACRO main.watch_daily_of_class(class) AS TABLE
{{ watch.daily("SELECT e.student_id FROM main.student_classes AS e WHERE e.class_id = " ~ class) }}
