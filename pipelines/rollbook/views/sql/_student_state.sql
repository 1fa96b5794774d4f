{#- The state of the students listed on each day of a relation, shared by student_daily and student_weekly.

    `landed` is a relation with the columns `keys`, which identify a day, and `snapshot_date`. Each table is filtered to
    the days first and then joined by equality, so DuckDB pushes a filter on a key down to every table: a query for one
    day costs one day. -#}

{#- The rows of a table's history that were valid on the days; `more` are further columns. -#}
{%- macro on_days(landed, keys, table, more="") -%}
(
    SELECT {{ m.names(keys, "d.") }}, h.*{{ more }}
    FROM {{ landed }} AS d INNER JOIN history.{{ table }} AS h
        ON {{ m.valid_on("h", "d.snapshot_date") }}
)
{%- endmacro -%}

{#- CTEs: `listed`, the number of classes of a student on a day, and `in_none`, the periods in which a student is known
    to have no class: since the record said so, until the student left the institution. -#}
{%- macro class_counts(landed, keys) -%}
listed AS (
    SELECT {{ m.names(keys) }}, student_id, COUNT(*) AS class_count
    FROM {{ on_days(landed, keys, "student_classes") }}
    GROUP BY {{ m.names(keys) }}, student_id
),
emptied AS (SELECT student_id, first_day FROM spans.student_classes WHERE span_state = 'empty'),
versions AS (
    SELECT student_id, valid_from, valid_to, LAG(valid_to) OVER w AS before_to
    FROM history.students SEMI JOIN emptied USING (student_id)
    WINDOW w AS (PARTITION BY student_id ORDER BY valid_from)
),
numbered AS (
    SELECT
        *,
        COUNT(*) FILTER (before_to IS NULL OR before_to < valid_from)
            OVER (PARTITION BY student_id ORDER BY valid_from) AS number
    FROM versions
),
stays AS (
    SELECT student_id, MIN(valid_from) AS since, MAX(COALESCE(valid_to, DATE 'infinity')) AS until
    FROM numbered GROUP BY student_id, number
),
in_none AS (
    SELECT s.student_id, MIN(e.first_day) AS since, s.until
    FROM stays AS s INNER JOIN emptied AS e
        ON e.student_id = s.student_id AND e.first_day >= s.since AND e.first_day < s.until
    GROUP BY s.student_id, s.until
)
{%- endmacro -%}

{#- The columns of a student's state on the day that both views have. -#}
{%- macro columns() -%}
    student_id,
    s.name,
    COALESCE(l.class_count, CASE WHEN n.student_id IS NOT NULL THEN 0 END) AS class_count,
    summary.total_assignments,
    summary.completed_assignments,
    summary.completion_rate,
    summary.completion,
    summary.average_score,
    summary.total_time_minutes,
    activity.assignment_submission_count,
    activity.assignment_missing_count,
    activity.has_ever_logged_in,
    {{ metric.last_activity_date }} AS last_activity_date,
    {{ metric.days_inactive }} AS days_inactive,
    {{ metric.is_active }} AS is_active
{%- endmacro -%}

{#- The summaries on the days, with `completion`. -#}
{%- macro summaries(landed, keys) -%}
{{ on_days(landed, keys, "student_summaries", ", " ~ metric.completion ~ " AS completion") }}
{%- endmacro -%}

{%- macro joined(landed, keys) -%}
{{ landed }} AS landed
INNER JOIN {{ on_days(landed, keys, "students") }} AS s USING ({{ m.names(keys) }})
LEFT JOIN {{ summaries(landed, keys) }} AS summary USING ({{ m.names(keys) }}, student_id)
LEFT JOIN {{ on_days(landed, keys, "student_activity") }} AS activity USING ({{ m.names(keys) }}, student_id)
LEFT JOIN listed AS l USING ({{ m.names(keys) }}, student_id)
LEFT JOIN in_none AS n
    ON n.student_id = s.student_id AND n.since <= landed.snapshot_date AND n.until > landed.snapshot_date
{%- endmacro -%}

{#- A change between two rows; NULL where the service began to count again in between: `total` is lower then. -#}
{%- macro of_same_count(now, before, change, total="total_assignments") -%}
CASE WHEN COALESCE({{ now }}.{{ total }} >= {{ before }}.{{ total }}, TRUE) THEN {{ change }} END
{%- endmacro -%}
