-- watch_daily_of_class(class): the rows of watch_daily of the students whose records list a class now.
{% import "_watch.sql" as watch with context %}
{% set class = m.own(version, "class") %}
CREATE OR REPLACE MACRO main.watch_daily_of_class(class) AS TABLE
{{ watch.daily("SELECT e.student_id FROM main.student_classes AS e WHERE e.class_id = " ~ class) }}
