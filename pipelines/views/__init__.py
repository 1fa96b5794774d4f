"""What analysts see beside the tables.

    sql/            one view a file: what a row is, what each column means, the query
    macros/         table macros: a table as of a day, the changes between two days
    catalog.py      makes them in a file, and the views of the lake
    thresholds.py   thresholds.csv, which students_to_watch goes by
    dictionary.py   the data dictionary, warehouse/README.md

Tables and the comments on them belong to `store.schema`.
"""
