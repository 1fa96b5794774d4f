{#- Column lists and row comparisons, from the declarations in tables.py. A column is a Column or a name. -#}

{%- macro name(column) -%}
{{ column if column is string else column.name }}
{%- endmacro -%}

{%- macro names(columns, of="") -%}
{%- for c in columns %}{{ of }}{{ name(c) }}{{ ", " if not loop.last }}{% endfor -%}
{%- endmacro -%}

{#- Two rows have the same values. -#}
{%- macro same(columns, a, b) -%}
{%- for c in columns %}{{ a }}.{{ name(c) }} = {{ b }}.{{ name(c) }}{{ " AND " if not loop.last }}{% endfor -%}
{%- endmacro -%}

{#- Two rows have the same values; NULLs are equal. -#}
{%- macro alike(columns, a, b) -%}
{%- for c in columns %}{{ a }}.{{ name(c) }} IS NOT DISTINCT FROM {{ b }}.{{ name(c) }}{{ " AND " if not loop.last }}
{%- else %}TRUE{% endfor -%}
{%- endmacro -%}

{%- macro differ(columns, a, b) -%}
{%- for c in columns %}{{ a }}.{{ name(c) }} IS DISTINCT FROM {{ b }}.{{ name(c) }}{{ " OR " if not loop.last }}
{%- else %}FALSE{% endfor -%}
{%- endmacro -%}

{#- A version of a record was valid on a day: it begins on valid_from and ends before valid_to. -#}
{%- macro valid_on(version, day) -%}
{{ version }}.valid_from <= {{ day }} AND COALESCE({{ version }}.valid_to, DATE 'infinity') > {{ day }}
{%- endmacro -%}

{#- A difference, rounded; a tiny loss is 0, not -0. -#}
{%- macro difference(value) -%}
ROUND({{ value }}, 2) + 0
{%- endmacro -%}

{#- A record's observation says nothing about its rows in a table: it was refused, or did not state that table (G5).

    This decides which rows are removed, both for the change guard (compare.sql) and the history (observations.sql): a
    record that states the table removes its rows that it does not show, and a record that is stated absent all its rows
    (G2). A record that was not observed keeps them. -#}
{%- macro says_nothing(observed, table) -%}
({{ observed }}.state = 'rejected' OR ({{ observed }}.state = 'not_stated' AND {{ observed }}.table_name = '{{ table.name }}'))
{%- endmacro -%}

{#- A macro of an attached file reads the tables of the database that the analyst is connected to. So each macro knows
    the version of its own file, and returns a value only there. -#}
{%- macro own(version, value) -%}
(
    SELECT CASE WHEN id = '{{ version }}' THEN {{ value }}
    ELSE ERROR('This macro belongs to another file than the one you are connected to. Name that file with USE first') END
    FROM spans.version
)
{%- endmacro -%}

{#- The day that a macro is asked about: an error before the first landed day, of which nothing is known. -#}
{%- macro landed(version, day) -%}
{{ own(version, "CASE
        WHEN CAST(" ~ day ~ " AS DATE) < (SELECT MIN(snapshot_date) FROM spans.days) THEN ERROR(
            'Nothing is known as of ' || CAST(" ~ day ~ " AS DATE) || ': the first landed day is '
            || (SELECT MIN(snapshot_date) FROM spans.days)
        )
        ELSE CAST(" ~ day ~ " AS DATE)
    END") }}
{%- endmacro -%}

{#- A number rounded, halves up. -#}
{%- macro rounded(value, places=2) -%}
CAST(FLOOR(({{ value }}) * {{ 10 ** places }} + 0.5) AS DOUBLE) / {{ 10 ** places }}
{%- endmacro -%}
