"""Everything that analysts query besides the tables: views and macros, with their documentation.

    sql/            one file per view: what a row is, what each column means, the query
    macros/         macros: a table as of a day, the changes between two days
    catalog.py      creates them in a database, together with the views of the lake
    metrics.py      measures that several views share, each defined once
    editable.py     thresholds.csv and terms.csv, which students_to_watch and calendar use
    contacted.py    contacted.csv: who was spoken to, and rests
    dictionary.py   the data dictionary, warehouse/README.md, and sources.yml for dbt
    dictionary.md.jinja    its template; dictionary.md, connect.md, privacy.md, cookbook.sql are its parts by hand

Tables and their comments belong to `store.schema`.
"""
