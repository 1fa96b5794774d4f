-- One row per student ever listed up to a day: what was last known of the student on it.
{% import "_known.sql" as known with context %}
{{ known.students() }}
