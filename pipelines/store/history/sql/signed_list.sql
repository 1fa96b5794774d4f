-- What a record said of the list {{ table }} on one day, as one number; the order of a list says nothing.
SELECT {{ parent }}, snapshot_date, BIT_XOR(HASH({{ content }}, span_state)) AS said FROM observed GROUP BY 1, 2
