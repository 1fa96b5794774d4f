"""What analysts query besides the tables: views and macros, with their documentation.

    sql/            one file per view: what a row is, what each column means, the query
    macros/         macros: a table as of a day, the changes between two days
    catalog.py      creates them in a database, together with the views of the lake
    fleet.py        what is in the file of many institutions; its figures are in rollups/, its words in fleet.md
    pseudonymous.py  what is in a file for readers who need no names
    metrics.py      measures that several views share, each defined once
    thresholds.py   thresholds.csv, which students_to_watch uses
    terms.py        terms.csv, which calendar uses
    editable.py     how both are read, as spreadsheet programs save them
    keys.py         the keys of tables and views, and which columns join which of them
    dictionary.py   the data dictionary, warehouse/README.md
    connect.md      its part on how to read the file from other tools
    dbt.py          the same for dbt, sources.yml

Tables and the comments on them belong to `store.schema`.
"""
