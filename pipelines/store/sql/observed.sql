-- What was observed of each record on one day: stated or rejected; silent, with the table it was silent about; proven, per set.
CREATE OR REPLACE TABLE observed (set_name VARCHAR, id BIGINT, state VARCHAR, table_name VARCHAR)
