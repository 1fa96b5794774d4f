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

{#- The last version of each record (and value of `by`), whether the record is gone, and since when it is as it is. -#}
{%- macro latest(table, key, gone="FALSE", by="") -%}
(
    SELECT *, valid_to IS NOT NULL OR {{ gone }} AS gone, COALESCE(valid_to, valid_from) AS modified
    FROM {{ versions(table, key) }}
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

{#- Who teaches which class, or did, and of which course it is, or was: what was replaced is gone from the class. -#}
{%- macro taught() -%}
(SELECT * FROM {{ latest("classes", "class_id", closed, by="teacher_id") }} WHERE teacher_id IS NOT NULL)
{%- endmacro -%}
{%- macro courses() -%}{{ latest("classes", "class_id", closed, by="course_id") }}{%- endmacro -%}

{#- A value as the newest class states it that has not gone, or else the newest of all. -#}
{%- macro newest_of(value) -%}
{%- set of = "ARG_MAX(" ~ value ~ ", (modified, class_id))" -%}
COALESCE({{ of }} FILTER (NOT gone), {{ of }})
{%- endmacro -%}

{#- The teachers of all classes, by the newest class. -#}
{%- macro teachers() -%}
(
    SELECT
        teacher_id,
        {{ newest_of("teacher_name") }} AS name,
        {{ newest_of("teacher_email") }} AS email,
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

{#- The session of the newest landed day, and the first day of which it is: its term, or else its school year. -#}
{%- macro session() -%}
(
    SELECT COALESCE('term-' || t.first_day, 'year-' || {{ year("d.snapshot_date") }}) AS session, d.snapshot_date AS since
    FROM spans.days AS d LEFT JOIN main.terms AS t ON d.snapshot_date BETWEEN t.first_day AND t.last_day
    QUALIFY session IS DISTINCT FROM LAG(session) OVER (ORDER BY d.snapshot_date)
    ORDER BY since DESC LIMIT 1
)
{%- endmacro -%}
