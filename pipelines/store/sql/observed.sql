-- The observations of one day, per record: stated or rejected; silent, with the table; and per set: proven.
CREATE OR REPLACE TABLE observed (set_name VARCHAR, id BIGINT, state VARCHAR, table_name VARCHAR)
