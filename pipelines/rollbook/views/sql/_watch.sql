{#- Which students are to watch, and why: the only definition, for students_to_watch, watch_daily and their macros.

    A statement imports this as `watch` and begins `WITH asked AS (...), {{ watch.watched() }}`. `asked` has one row per
    day to evaluate, in the column `on_day`; its other columns are passed through. -#}

{#- The five reasons. -#}
{%- set flags = ("is_low_completion", "is_low_score", "is_inactive", "is_never_logged_in", "is_falling") -%}

{#- The versions of some students only, materialized: otherwise DuckDB joins all days with all versions first. -#}
{%- macro versions(whose) -%}
{% for table in ("students", "student_summaries", "student_activity") %}
their_{{ table }} AS MATERIALIZED (SELECT * FROM history.{{ table }} WHERE student_id IN ({{ whose }})),
{% endfor %}
{%- endmacro -%}

{#- A reason's severity: from 1 where its threshold is just met, to 2 where it is met twice over. -#}
{%- macro counts(flag, beyond, threshold) -%}
CASE WHEN {{ flag }} THEN 1 + LEAST(COALESCE(({{ beyond }}) / NULLIF({{ threshold }}, 0), 1), 1) ELSE 0 END
{%- endmacro -%}

{#- The days since a day that count: those of terms, as nobody is absent in a break. NULL terms: terms.csv has none, so
    all days count. -#}
{%- macro term_days(since) -%}
CASE
            WHEN terms IS NULL OR {{ since }} IS NULL THEN on_day - {{ since }}
            ELSE CAST(LIST_SUM([
                GREATEST(LEAST(t.last_day, on_day) - GREATEST(t.first_day - 1, {{ since }}), 0) FOR t IN terms
            ]) AS BIGINT)
        END
{%- endmacro -%}

{#- The CTEs that end with `watched`, one row per asked day and student to watch on it. `whose` is a query of the ids to
    evaluate; by default all students. `thresholds_of` is the relation of the thresholds. -#}
{%- macro watched(whose="", thresholds_of="main.thresholds") -%}
{%- set from = "their_" if whose else "history." -%}
{%- set before = "(d.on_day - CAST(l.falling_days AS INTEGER))" -%}
{{ versions(whose) if whose }}
limits AS (
    SELECT
        {% for name in thresholds %}
        MAX(value) FILTER (name = '{{ name }}') AS {{ name }},
        {% endfor %}
        (SELECT LIST(t) FROM main.terms AS t) AS terms
    FROM {{ thresholds_of }} AS h
),
-- Filter by day first, then join by student: few of a year's versions were valid on one day.
state AS (
    SELECT d.*, l.*, v.*
    FROM asked AS d CROSS JOIN limits AS l, LATERAL (
        SELECT
            s.student_id, s.name, s.email, s.reference_id, s.registration_date,
            a.has_ever_logged_in,
            m.total_assignments,
            m.completed_assignments,
            m.completion AS completion_rate,
            m.average_score,
            b.total_assignments AS total_before,
            b.completed_assignments AS completed_before,
            b.completion AS completion_rate_before,
            b.average_score AS average_score_before,
            a.assignment_missing_count - c.assignment_missing_count AS newly_missing,
            GREATEST(m.last_activity_date, a.last_activity_date) AS last_activity_date,
            d.on_day - GREATEST(m.last_activity_date, a.last_activity_date) AS days_inactive
        FROM (
            SELECT * FROM {{ from }}students AS h
            WHERE {{ m.valid_on("h", "d.on_day") }} AND h.is_registered IS DISTINCT FROM 0
        ) AS s
        LEFT JOIN (
            SELECT *, {{ metric.completion }} AS completion FROM {{ from }}student_summaries AS h
            WHERE {{ m.valid_on("h", "d.on_day") }}
        ) AS m USING (student_id)
        LEFT JOIN (
            SELECT * FROM {{ from }}student_activity AS h WHERE {{ m.valid_on("h", "d.on_day") }}
        ) AS a USING (student_id)
        LEFT JOIN (
            SELECT *, {{ metric.completion }} AS completion FROM {{ from }}student_summaries AS h
            WHERE {{ m.valid_on("h", before) }}
        ) AS b USING (student_id)
        LEFT JOIN (
            SELECT * FROM {{ from }}student_activity AS h WHERE {{ m.valid_on("h", before) }}
        ) AS c USING (student_id)
    ) AS v
),
judged AS (
    SELECT
        *,
        {{ term_days("last_activity_date") }} AS term_days_inactive,
        {{ term_days("registration_date") }} AS term_days_registered,
        COALESCE(completion_rate < completion_below AND total_assignments >= least_assignments, FALSE)
            AS is_low_completion,
        COALESCE(average_score < score_below, FALSE) AS is_low_score,
        CASE WHEN terms IS NULL THEN inactive_days ELSE inactive_term_days END AS inactive_after,
        COALESCE(term_days_inactive >= inactive_after AND has_ever_logged_in IS DISTINCT FROM FALSE, FALSE) AS is_inactive,
        COALESCE(NOT has_ever_logged_in AND term_days_registered >= never_logged_in_days, FALSE)
            AS is_never_logged_in,
        -- Compare only if totals did not reset and both days have enough assignments.
        total_before >= least_assignments AND total_assignments >= total_before
            AND completed_assignments >= completed_before AS is_comparable,
        COALESCE(
            is_comparable AND completion_rate_before - completion_rate > falling_points
            AND newly_missing > completed_assignments - completed_before, FALSE
        ) AS is_completion_falling,
        COALESCE(is_comparable AND average_score_before - average_score > falling_score_points, FALSE)
            AS is_score_falling,
        is_completion_falling OR is_score_falling AS is_falling
    FROM state
),
weighed AS (
    SELECT
        *,
        {% for flag in flags %}CAST({{ flag }} AS INTEGER){{ " + " if not loop.last }}{% endfor %} AS reason_count,
        ROUND(
            {{ counts("is_low_completion", "completion_below - completion_rate", "completion_below") }}
            + {{ counts("is_low_score", "score_below - average_score", "score_below") }}
            + {{ counts("is_inactive", "term_days_inactive - inactive_after", "inactive_after") }}
            + {{ counts("is_never_logged_in", "term_days_registered - never_logged_in_days", "never_logged_in_days") }}
            + GREATEST(
                {{ counts(
                    "is_completion_falling", "completion_rate_before - completion_rate - falling_points", "falling_points"
                ) }},
                {{ counts(
                    "is_score_falling", "average_score_before - average_score - falling_score_points",
                    "falling_score_points"
                ) }}
            ),
            2
        ) AS severity
    FROM judged
),
watched AS (
    SELECT
        *,
        CONCAT_WS(
            '; ',
            CASE WHEN is_never_logged_in THEN 'never logged in, registered ' || registration_date END,
            CASE WHEN is_inactive
                THEN FORMAT('inactive for {} days{}', term_days_inactive, CASE WHEN terms IS NOT NULL THEN ' of term' ELSE '' END)
                END,
            CASE WHEN is_completion_falling
                THEN FORMAT(
                    'completion fell from {:g} to {:g} % in {:g} days: {} of {} assignments, was {} of {}; {} more missing',
                    completion_rate_before, completion_rate, falling_days, completed_assignments, total_assignments,
                    completed_before, total_before, newly_missing
                ) END,
            CASE WHEN is_score_falling
                THEN FORMAT(
                    'score fell from {:g} to {:g} in {:g} days', average_score_before, average_score, falling_days
                ) END,
            CASE WHEN is_low_completion
                THEN FORMAT('low completion ({:g} %, under {:g})', completion_rate, completion_below) END,
            CASE WHEN is_low_score THEN FORMAT('low score ({:g}, under {:g})', average_score, score_below) END
        ) AS reason
    FROM weighed
    WHERE reason_count > 0
)
{%- endmacro -%}

{#- The rows of students_to_watch, from the CTEs above. -#}
{%- macro students() -%}
{{ watched() }},
titles AS (
    SELECT e.student_id, STRING_AGG(e.class_title, '; ' ORDER BY e.class_title, e.class_id) AS class_titles
    FROM asked AS d
    INNER JOIN history.student_classes AS e ON {{ m.valid_on("e", "d.on_day") }}
    SEMI JOIN watched AS w ON w.student_id = e.student_id
    GROUP BY e.student_id
)
SELECT
    w.name,
    w.severity,
    w.reason,
    t.class_titles,
    w.student_id,
    w.reference_id,
    w.email,
    w.reason_count,
    {% for flag in flags %}
    w.{{ flag }},
    {% endfor %}
    w.completion_rate,
    w.completion_rate_before,
    w.average_score,
    w.average_score_before,
    w.last_activity_date,
    w.days_inactive,
    w.term_days_inactive
FROM watched AS w LEFT JOIN titles AS t USING (student_id)
ORDER BY w.severity DESC, w.student_id
{%- endmacro -%}

{#- The rows of watch_daily; `whose` as in `watched`. -#}
{%- macro daily(whose="") -%}
WITH landed AS (
    SELECT snapshot_date, LAG(snapshot_date) OVER (ORDER BY snapshot_date) AS day_before FROM spans.days
),
asked AS (SELECT snapshot_date, day_before, UNNEST([snapshot_date, day_before]) AS on_day FROM landed),
{{ watched(whose) }},
paired AS (
    SELECT
        snapshot_date, student_id, day_before,
        {% for column in ("name", "severity", "reason") %}
        ANY_VALUE({{ column }}) FILTER (on_day = snapshot_date) AS {{ column }},
        ANY_VALUE({{ column }}) FILTER (on_day < snapshot_date) AS {{ column }}_before,
        {% endfor %}
        {% for flag in flags %}
        COALESCE(BOOL_OR({{ flag }}) FILTER (on_day = snapshot_date), FALSE) AS {{ flag }},
        {% endfor %}
        COALESCE(MAX(reason_count) FILTER (on_day = snapshot_date), 0) AS reason_count
    FROM watched
    GROUP BY snapshot_date, student_id, day_before
)
SELECT
    p.snapshot_date,
    p.student_id,
    COALESCE(s.name, p.name_before) AS name,
    CASE
        WHEN p.day_before IS NULL THEN NULL
        WHEN p.severity IS NULL THEN 'no longer to watch'
        WHEN p.severity_before IS NULL THEN 'newly to watch'
        ELSE 'still to watch'
    END AS change,
    p.severity,
    p.severity_before,
    p.reason,
    p.reason_before,
    p.reason_count,
    {% for flag in flags %}
    p.{{ flag }},
    {% endfor %}
    s.student_id IS NOT NULL AS is_listed
FROM paired AS p
LEFT JOIN history.students AS s ON s.student_id = p.student_id AND {{ m.valid_on("s", "p.snapshot_date") }}
ORDER BY p.snapshot_date, p.severity DESC NULLS LAST, p.student_id
{%- endmacro -%}
