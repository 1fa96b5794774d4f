{#- Which students are to watch, and why: the only definition, for students_to_watch, watch_daily and their macros.

    A student stays on the list for some school days after the last one with a reason, so several days decide who is on
    the list of one. A statement imports this as `watch`, and begins `WITH asked AS (...), {{ watch.watched() }}`. -#}

{#- The five reasons. -#}
{%- set flags = ("is_low_completion", "is_low_score", "is_inactive", "is_never_logged_in", "is_missing_work") -%}

{#- A class is compared if the work of so many others in it is known: else its share would tell of single ones. -#}
{%- set others = 10 -%}

{#- The versions of some students, and of all in their classes, only; materialized: otherwise DuckDB joins all days with
    all versions first. -#}
{%- macro versions(whose) -%}
their_student_classes AS MATERIALIZED (
    SELECT * FROM history.student_classes
    WHERE class_id IN (SELECT class_id FROM history.student_classes WHERE student_id IN ({{ whose }}))
),
those AS MATERIALIZED (
    SELECT student_id FROM their_student_classes UNION SELECT * FROM ({{ whose }})
),
{% for table in ("students", "student_summaries", "student_activity") %}
their_{{ table }} AS MATERIALIZED (SELECT * FROM history.{{ table }} SEMI JOIN those USING (student_id)),
{% endfor %}
{%- endmacro -%}

{#- A reason's severity: from 1 where its threshold is just met, to 2 at twice that. -#}
{%- macro counts(flag, beyond, threshold) -%}
CASE WHEN {{ flag }} THEN 1 + LEAST(COALESCE(({{ beyond }}) / NULLIF({{ threshold }}, 0), 1), 1) ELSE 0 END
{%- endmacro -%}

{#- How many school days there were before a day, and after one day and before another. A night knows the days before
    it: whether its own is a school day is known later, and must not change what the night said. -#}
{%- macro number(day) -%}
LEN([s FOR s IN school IF s < {{ day }}])
{%- endmacro -%}
{%- macro days_since(since, until) -%}
LEN([s FOR s IN school IF s > {{ since }} AND s < {{ until }}])
{%- endmacro -%}

{#- The first of the last `count` school days before `seen_on`; NULL if there were fewer. -#}
{%- macro last_days(count) -%}
CASE WHEN number >= {{ count }} THEN COALESCE(school[number - {{ count }} + 1], seen_on) END
{%- endmacro -%}

{#- CTEs: `limits`, one row with the thresholds, the first landed day, and the days of the `school`. Before the first
    landed day nobody knows which they were: each weekday counts, of terms if terms.csv has any. No column is named as a
    parameter of a macro. -#}
{%- macro limits(thresholds_of="main.thresholds") -%}
thresholds AS (
    SELECT
        {% for name in thresholds %}
        CAST(MAX(value) FILTER (name = '{{ name }}') AS {{ "BIGINT" if name.endswith("_days") else "DOUBLE" }}) AS {{ name }},
        {% endfor %}
        (SELECT MIN(snapshot_date) FROM spans.days) AS first_landed
    FROM {{ thresholds_of }} AS h
),
school_days AS (
    SELECT a.day AS held_on FROM main.active_days AS a CROSS JOIN thresholds WHERE 100 * active >= school_day_percent * listed
    UNION
    SELECT CAST(held_on AS DATE)
    FROM (SELECT UNNEST(RANGE(first_landed - 365, first_landed, INTERVAL 1 DAY)) AS held_on FROM thresholds)
    WHERE ISODOW(held_on) < 6
        AND (NOT EXISTS (FROM main.terms) OR EXISTS (FROM main.terms WHERE held_on BETWEEN first_day AND last_day))
),
limits AS (
    SELECT *, (SELECT COALESCE(LIST(held_on ORDER BY held_on), CAST([] AS DATE[])) FROM school_days) AS school
    FROM thresholds
)
{%- endmacro -%}

{#- The days that decide who is on the list of a day: itself, and the school days until which a reason lasts. -#}
{%- macro deciding(day) -%}
LIST_DISTINCT([{{ day }}] || school[GREATEST({{ number(day) }} - stays_school_days + 1, 1) : {{ number(day) }}])
{%- endmacro -%}

{#- CTEs from `looked` to `judged`: one row per row of it and student with a reason on its day, `seen_on`. Its other
    columns are `keys`, and are passed through; the first of them tells the others. `whose` is a query of the ids to
    judge; by default all students. -#}
{%- macro judged(keys, whose="") -%}
{%- set from = "their_" if whose else "history." -%}
{%- set each = (keys.split(", ")[0] ~ ", " if keys else "") ~ "seen_on" -%}
{{ versions(whose) if whose }}
windows AS (
    SELECT
        o.* EXCLUDE (number),
        {{ last_days("missing_school_days") }} AS since,
        {{ last_days("inactive_school_days") }} AS active_from,
        {{ last_days("never_logged_in_school_days") }} AS logged_in_by
    FROM (SELECT looked.*, {{ number("seen_on") }} AS number FROM looked CROSS JOIN limits) AS o CROSS JOIN limits
),
-- Filter by day first, then join by student: few of a year's versions were valid on one day. DuckDB pushes a filter by a
-- key into the days only if a join stands before LATERAL.
state AS (
    SELECT
        d.*, v.*,
        COALESCE(completion_rate < completion_below AND total_assignments >= low_completion_assignments, FALSE)
            AS is_low_completion,
        COALESCE(average_score < score_below, FALSE) AS is_low_score,
        COALESCE(last_activity_date < active_from AND has_ever_logged_in IS DISTINCT FROM FALSE, FALSE) AS is_inactive,
        COALESCE(NOT has_ever_logged_in AND registration_date < logged_in_by, FALSE) AS is_never_logged_in,
        COALESCE(
            is_comparable AND newly_missing >= missing_assignments AND 100 * newly_missing >= missing_percent * newly_due,
            FALSE
        ) AS may_be_missing_work,
        is_low_completion OR is_low_score OR is_inactive OR is_never_logged_in OR may_be_missing_work AS may_be_flagged
    FROM windows AS d CROSS JOIN limits AS l, LATERAL (
        SELECT
            s.student_id, s.registration_date,
            a.has_ever_logged_in,
            m.total_assignments,
            m.completion AS completion_rate,
            m.average_score,
            GREATEST(m.last_activity_date, a.last_activity_date) AS last_activity_date,
            c.assignment_missing_count AS missing_before,
            b.completed_assignments + c.assignment_missing_count AS due_before,
            a.assignment_missing_count - c.assignment_missing_count AS newly_missing,
            m.completed_assignments - b.completed_assignments + newly_missing AS newly_due,
            -- Compare only where the work is the same: the service may begin to count again.
            m.completed_assignments >= b.completed_assignments AND newly_due > 0 AS is_comparable
        FROM (
            SELECT * FROM {{ from }}students AS h
            WHERE {{ m.valid_on("h", "d.seen_on") }} AND h.is_registered IS DISTINCT FROM 0
        ) AS s
        LEFT JOIN (
            SELECT *, {{ metric.completion }} AS completion FROM {{ from }}student_summaries AS h
            WHERE {{ m.valid_on("h", "d.seen_on") }}
        ) AS m USING (student_id)
        LEFT JOIN (
            SELECT * FROM {{ from }}student_activity AS h WHERE {{ m.valid_on("h", "d.seen_on") }}
        ) AS a USING (student_id)
        LEFT JOIN (
            SELECT * FROM {{ from }}student_summaries AS h WHERE {{ m.valid_on("h", "d.since") }}
        ) AS b USING (student_id)
        LEFT JOIN (
            SELECT * FROM {{ from }}student_activity AS h WHERE {{ m.valid_on("h", "d.since") }}
        ) AS c USING (student_id)
    ) AS v
),
-- What a class lacks: its share, and as many pieces as three of four lack, which may be a teacher who marks late.
classes AS (
    SELECT
        {{ each }}, class_id,
        SUM(GREATEST(newly_missing, 0)) / SUM(newly_due) AS class_share,
        -- One byte a member: the pieces of all members are in memory at once.
        QUANTILE_DISC(CAST(LEAST(GREATEST(newly_missing, 0), 255) AS UTINYINT), 0.25) AS class_lacks
    FROM (
        SELECT {{ each }}, student_id, newly_missing, newly_due FROM state WHERE is_comparable
    ) AS s INNER JOIN {{ from }}student_classes AS e
        ON e.student_id = s.student_id AND {{ m.valid_on("e", "s.seen_on") }}
    GROUP BY {{ each }}, class_id HAVING COUNT(*) > {{ others }}
),
in_classes AS (
    SELECT {{ each }}, s.student_id, MAX(class_share) AS class_share, MAX(class_lacks) AS class_lacks
    FROM (SELECT {{ each }}, student_id FROM state WHERE may_be_flagged) AS s
    INNER JOIN {{ from }}student_classes AS e ON e.student_id = s.student_id AND {{ m.valid_on("e", "s.seen_on") }}
    INNER JOIN classes USING ({{ each }}, class_id)
    GROUP BY {{ each }}, s.student_id
),
flagged AS (
    SELECT
        *,
        newly_due * COALESCE(missing_before / NULLIF(due_before, 0), 0) AS expected_as_before,
        ROUND(
            GREATEST(newly_due * COALESCE(class_share, 0), COALESCE(class_lacks, 0), expected_as_before), 1
        ) AS expected_missing,
        newly_missing - expected_missing AS excess,
        may_be_missing_work AND excess >= missing_assignments AND 100 * excess >= missing_percent * newly_due
            AS is_missing_work,
        {% for flag in flags %}CAST({{ flag }} AS INTEGER){{ " + " if not loop.last }}{% endfor %} AS reason_count
    FROM (FROM state WHERE may_be_flagged) LEFT JOIN in_classes USING ({{ each }}, student_id) CROSS JOIN limits
    {{ "WHERE student_id IN (" ~ whose ~ ")" if whose }}
),
weighed AS (
    SELECT
        *,
        CASE WHEN is_inactive THEN {{ days_since("last_activity_date", "seen_on") }} END AS days_away,
        CASE WHEN is_never_logged_in THEN {{ days_since("registration_date", "seen_on") }} END AS days_registered
    FROM flagged WHERE reason_count > 0
),
judged AS (
    SELECT
        * EXCLUDE (school),
        -- Who has come back is not away any more; work that was missing is.
        is_missing_work OR is_low_completion OR is_low_score AS lasts,
        ROUND(
            {{ counts("is_low_completion", "completion_below - completion_rate", "completion_below") }}
            + {{ counts("is_low_score", "score_below - average_score", "score_below") }}
            + {{ counts("is_inactive", "days_away - inactive_school_days", "inactive_school_days") }}
            + {{ counts(
                "is_never_logged_in", "days_registered - never_logged_in_school_days", "never_logged_in_school_days"
            ) }}
            + {{ counts("is_missing_work", "excess - missing_assignments", "missing_assignments") }},
            2
        ) AS severity,
        CONCAT_WS(
            '; ',
            CASE WHEN is_missing_work THEN FORMAT(
                '{} of {} assignments due since {} are missing, {:g} expected ({})',
                newly_missing, newly_due, since, expected_missing,
                CASE
                    WHEN expected_missing = 0 THEN 'none before'
                    WHEN class_lacks >= expected_missing THEN 'as most of the class'
                    WHEN newly_due * class_share > expected_as_before THEN FORMAT('{:.0f} % in the class', 100 * class_share)
                    ELSE FORMAT('{} of {} before', missing_before, due_before)
                END
            ) END,
            CASE WHEN is_never_logged_in THEN 'never logged in, registered ' || registration_date END,
            CASE WHEN is_inactive THEN FORMAT('inactive for {} school days', days_away) END,
            CASE WHEN is_low_completion
                THEN FORMAT('low completion ({:g} %, under {:g})', completion_rate, completion_below) END,
            CASE WHEN is_low_score THEN FORMAT('low score ({:g}, under {:g})', average_score, score_below) END
        ) AS reason
    FROM weighed
)
{%- endmacro -%}

{#- A reason of an earlier day says so. -#}
{%- macro dated(reason, seen_on, on_day) -%}
{{ reason }} || CASE WHEN {{ seen_on }} < {{ on_day }} THEN FORMAT(' (last on {})', {{ seen_on }}) ELSE '' END
{%- endmacro -%}

{#- CTEs from `asked`, with one row per day in `on_day`, to `watched`: one row per day and student on its list, with the
    latest day that decides. -#}
{%- macro watched(thresholds_of="main.thresholds") -%}
{{ limits(thresholds_of) }},
pairs AS (SELECT on_day, UNNEST({{ deciding("on_day") }}) AS seen_on FROM asked CROSS JOIN limits),
looked AS (SELECT DISTINCT seen_on FROM pairs),
{{ judged("") }},
-- A reason of some days ago puts nobody on the list who has left since, nor another person with the id.
watched AS (
    SELECT
        p.on_day, s.name, s.reference_id, s.email,
        j.* REPLACE ({{ dated("j.reason", "j.seen_on", "p.on_day") }} AS reason)
    FROM pairs AS p
    INNER JOIN judged AS j USING (seen_on)
    INNER JOIN history.students AS s
        ON s.student_id = j.student_id AND {{ m.valid_on("s", "p.on_day") }} AND s.is_registered IS DISTINCT FROM 0
    WHERE j.seen_on = p.on_day OR (j.lasts AND j.registration_date IS NOT DISTINCT FROM s.registration_date)
    QUALIFY ROW_NUMBER() OVER (PARTITION BY p.on_day, j.student_id ORDER BY seen_on DESC) = 1
)
{%- endmacro -%}

{#- The rows of students_to_watch, for the one day of `asked`. -#}
{%- macro on_list() -%}
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
    w.seen_on AS reason_on,
    w.reason_count,
    {% for flag in flags %}
    w.{{ flag }},
    {% endfor %}
    w.newly_missing,
    w.newly_due,
    w.expected_missing,
    w.completion_rate,
    w.average_score,
    w.last_activity_date,
    w.seen_on - w.last_activity_date AS days_inactive
FROM watched AS w LEFT JOIN titles AS t USING (student_id)
ORDER BY w.severity DESC, w.student_id
{%- endmacro -%}

{#- The rows of watch_daily; `whose` as in `judged`. Each landed day looks at its own days, so that a filter by a day
    looks at no others; `at_once` looks at every day once, for all rows, or for those since `from_day`. -#}
{%- macro daily(whose="", at_once=false, from_day="") -%}
{%- set keys = "snapshot_date, day_before, decides, decided_before" -%}
WITH landed AS (
    SELECT snapshot_date, LAG(snapshot_date) OVER (ORDER BY snapshot_date) AS day_before FROM spans.days
),
{{ limits() }},
deciding AS (
    SELECT
        snapshot_date, day_before, {{ deciding("snapshot_date") }} AS now,
        CASE WHEN day_before IS NULL THEN [] ELSE {{ deciding("day_before") }} END AS before
    FROM landed CROSS JOIN limits
    {{ "WHERE COALESCE(snapshot_date >= CAST(" ~ from_day ~ " AS DATE), TRUE)" if from_day }}
),
pairs AS (
    SELECT
        snapshot_date, day_before, seen_on,
        LIST_CONTAINS(now, seen_on) AS decides, LIST_CONTAINS(before, seen_on) AS decided_before
    FROM (SELECT *, UNNEST(LIST_DISTINCT(now || before)) AS seen_on FROM deciding)
),
{% if at_once %}
looked AS (SELECT DISTINCT seen_on FROM pairs),
{{ judged("", whose) }},
found AS (SELECT * FROM pairs INNER JOIN judged USING (seen_on)),
{% else %}
looked AS (FROM pairs),
{{ judged(keys) }},
found AS (FROM judged),
{% endif %}
-- As in `watched`, for the day and for the one before.
decided AS (
    SELECT
        f.* REPLACE (
            f.decides AND s.student_id IS NOT NULL AND (f.seen_on = f.snapshot_date OR (
                f.lasts AND f.registration_date IS NOT DISTINCT FROM s.registration_date
            )) AS decides,
            f.decided_before AND b.student_id IS NOT NULL AND (f.seen_on = f.day_before OR (
                f.lasts AND f.registration_date IS NOT DISTINCT FROM b.registration_date
            )) AS decided_before
        ),
        COALESCE(s.name, b.name) AS name
    FROM found AS f
    LEFT JOIN history.students AS s
        ON s.student_id = f.student_id AND {{ m.valid_on("s", "f.snapshot_date") }} AND s.is_registered IS DISTINCT FROM 0
    LEFT JOIN history.students AS b
        ON b.student_id = f.student_id AND {{ m.valid_on("b", "f.day_before") }} AND b.is_registered IS DISTINCT FROM 0
),
paired AS (
    SELECT
        snapshot_date, day_before, student_id,
        ANY_VALUE(name) AS name,
        {% for column in ("severity", "reason_count") + flags %}
        ARG_MAX({{ column }}, seen_on) FILTER (decides) AS {{ column }},
        {% endfor %}
        ARG_MAX({{ dated("reason", "seen_on", "snapshot_date") }}, seen_on) FILTER (decides) AS reason,
        ARG_MAX(severity, seen_on) FILTER (decided_before) AS severity_before,
        ARG_MAX({{ dated("reason", "seen_on", "day_before") }}, seen_on) FILTER (decided_before) AS reason_before
    FROM decided GROUP BY snapshot_date, day_before, student_id
)
SELECT
    p.snapshot_date,
    p.student_id,
    p.name,
    CASE
        WHEN day_before IS NULL THEN NULL
        WHEN severity IS NULL THEN 'no longer to watch'
        WHEN severity_before IS NULL THEN 'newly to watch'
        ELSE 'still to watch'
    END AS change,
    severity,
    severity_before,
    reason,
    reason_before,
    COALESCE(reason_count, 0) AS reason_count,
    {% for flag in flags %}
    COALESCE({{ flag }}, FALSE) AS {{ flag }},
    {% endfor %}
    h.student_id IS NOT NULL AS is_listed
-- DuckDB pushes no filter by a day past an EXISTS.
FROM paired AS p
LEFT JOIN history.students AS h ON h.student_id = p.student_id AND {{ m.valid_on("h", "p.snapshot_date") }}
WHERE severity IS NOT NULL OR severity_before IS NOT NULL
ORDER BY p.snapshot_date, severity DESC NULLS LAST, p.student_id
{%- endmacro -%}
