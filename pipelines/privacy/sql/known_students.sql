-- One row per student ever listed up to a day, with the values last known on it.
{% import "_known.sql" as known with context %}
{{ known.students() }}
