{#- Parts of the files of OneRoster. `since`: what changed after the day $since, and how; else all that is active. -#}

{#- Status and time of change: blank in a bulk file, as the specification wants. -#}
{%- macro state(gone, modified) -%}
{% if since %}
CASE WHEN {{ gone }} THEN 'tobedeleted' ELSE 'active' END AS status,
STRFTIME({{ modified }}, '%Y-%m-%dT00:00:00.000Z') AS "dateLastModified"
{%- else -%}
'' AS status, '' AS "dateLastModified"
{%- endif -%}
{%- endmacro -%}

{%- macro wanted(gone, modified) -%}
{{ modified ~ " > $since" if since else "NOT " ~ gone }}
{%- endmacro -%}

{#- The versions of a table's records, with its untracked columns: of who is listed as they are now, else NULL. -#}
{%- macro versions(table, key) -%}
(
    SELECT c.*, h.valid_from, h.valid_to
    FROM main.{{ table }} AS c INNER JOIN history.{{ table }} AS h ON h.{{ key }} = c.{{ key }} AND h.valid_to IS NULL
    UNION ALL BY NAME
    SELECT * FROM history.{{ table }} WHERE valid_to IS NOT NULL
)
{%- endmacro -%}

{#- The last version of each record (and value of the column `by`), whether the record is gone, and since when it is as
    it is. -#}
{%- macro latest(table, key, gone="FALSE", by="") -%}
(
    SELECT *, valid_to IS NOT NULL OR {{ gone }} AS gone, COALESCE(valid_to, valid_from) AS modified
    FROM {{ versions(table, key) }}
    {{ "WHERE " ~ by ~ " IS NOT NULL" if by }}
    QUALIFY ROW_NUMBER() OVER (PARTITION BY {{ key }}{{ ", " ~ by if by }} ORDER BY valid_from DESC) = 1
)
{%- endmacro -%}

{#- The last version of each student. An id that was given to another person is another user from that day on: an LMS
    would else show the one what the other has done. -#}
{%- macro students() -%}
(
    SELECT
        h.*, i.first_day, i.last_day, i.is_reused,
        'student-' || h.student_id || CASE WHEN i.is_reused THEN '-' || i.first_day ELSE '' END AS id,
        h.valid_to IS NOT NULL AS gone, COALESCE(h.valid_to, h.valid_from) AS modified
    FROM {{ versions("students", "student_id") }} AS h
    INNER JOIN main.student_identities AS i
        ON i.student_id = h.student_id AND h.valid_from BETWEEN i.first_day AND COALESCE(i.last_day, h.valid_from)
    QUALIFY ROW_NUMBER() OVER (PARTITION BY h.student_id, i.first_day ORDER BY h.valid_from DESC) = 1
)
{%- endmacro -%}

{%- set closed = "COALESCE(class_status <> 1, FALSE)" -%}
{%- macro classes() -%}{{ latest("classes", "class_id", closed) }}{%- endmacro -%}

{#- Who teaches which class, or did: a teacher who was replaced is gone from the class. -#}
{%- macro taught() -%}{{ latest("classes", "class_id", closed, by="teacher_id") }}{%- endmacro -%}

{#- The teachers of all classes, by the newest class. -#}
{%- macro teachers() -%}
(
    SELECT
        teacher_id,
        COALESCE(ARG_MAX(teacher_name, modified) FILTER (NOT gone), ARG_MAX(teacher_name, modified)) AS name,
        COALESCE(ARG_MAX(teacher_email, modified) FILTER (NOT gone), ARG_MAX(teacher_email, modified)) AS email,
        BOOL_AND(gone) AS gone, MAX(modified) AS modified
    FROM {{ taught() }}
    GROUP BY teacher_id
)
{%- endmacro -%}

{%- macro school() -%}(SELECT 'school-' || school_id FROM main.institution){%- endmacro -%}

{%- macro course() -%}'course-' || COALESCE(CAST(course_id AS VARCHAR), 'none'){%- endmacro -%}

{#- The school year of the newest landed day: from August to July. -#}
{%- macro year(day) -%}YEAR({{ day }}) + CASE WHEN MONTH({{ day }}) > 7 THEN 1 ELSE 0 END{%- endmacro -%}

{%- macro newest() -%}(SELECT MAX(snapshot_date) FROM spans.days){%- endmacro -%}

{#- The terms of the newest landed day; without any, the school year. -#}
{%- macro sessions() -%}
(
    SELECT COALESCE(STRING_AGG('term-' || first_day, ',' ORDER BY first_day), 'year-' || {{ year(newest()) }})
    FROM main.terms
    WHERE {{ newest() }} BETWEEN first_day AND last_day
)
{%- endmacro -%}
