-- What a record said of {{ table }} on one day, as one number.
SELECT {{ parent }}, snapshot_date, HASH({{ content }}, span_state) AS said FROM observed
