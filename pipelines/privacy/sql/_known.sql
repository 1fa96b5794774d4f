{#- Each student ever listed up to the day `$day`, with the values last known on it, and the groups of the students
    listed then. Students who have left keep their last known values. -#}
{%- macro students() -%}
SELECT
        student_id,
        is_listed,
        last_completion AS completion,
        last_score AS score,
        COALESCE({{ metric.is_active }}, FALSE) AS is_active,
        landed.snapshot_date AS last_listed
    FROM (
        SELECT
            student_id,
            BOOL_OR({{ m.valid_on("s", "CAST($day AS DATE)") }}) AS is_listed,
            CASE WHEN is_listed THEN CAST($day AS DATE) ELSE MAX(valid_to) - 1 END AS snapshot_date
        FROM history.students AS s WHERE s.valid_from <= CAST($day AS DATE) GROUP BY student_id
    ) AS landed
    LEFT JOIN (
        SELECT
            student_id,
            ARG_MAX({{ metric.completion }}, valid_from) AS last_completion,
            ARG_MAX(average_score, valid_from) AS last_score,
            ARG_MAX(last_activity_date, valid_from) AS last_activity_date
        FROM history.student_summaries WHERE valid_from <= CAST($day AS DATE) GROUP BY student_id
    ) AS summary USING (student_id)
    LEFT JOIN (
        SELECT
            student_id,
            ARG_MAX(last_activity_date, valid_from) AS last_activity_date,
            ARG_MAX(has_ever_logged_in, valid_from) AS has_ever_logged_in
        FROM history.student_activity WHERE valid_from <= CAST($day AS DATE) GROUP BY student_id
    ) AS activity USING (student_id)
{%- endmacro -%}

{%- macro members() -%}
SELECT 'school' AS level, i.school_id AS id, i.school_name AS name, s.student_id
    FROM history.students AS s
    LEFT JOIN (SELECT MIN(school_id) AS school_id, MIN(school_name) AS school_name FROM main.institution) AS i ON TRUE
    WHERE {{ m.valid_on("s", "CAST($day AS DATE)") }}
    UNION ALL
    SELECT 'class' AS level, e.class_id AS id, COALESCE(c.class_title, e.class_title) AS name, e.student_id
    FROM history.student_classes AS e
    LEFT JOIN history.classes AS c ON c.class_id = e.class_id AND {{ m.valid_on("c", "CAST($day AS DATE)") }}
    WHERE {{ m.valid_on("e", "CAST($day AS DATE)") }}
    UNION ALL
    SELECT DISTINCT 'course' AS level, c.course_id AS id, c.course_name AS name, e.student_id
    FROM history.student_classes AS e
    INNER JOIN history.classes AS c ON c.class_id = e.class_id AND {{ m.valid_on("c", "CAST($day AS DATE)") }}
    WHERE {{ m.valid_on("e", "CAST($day AS DATE)") }} AND c.course_id IS NOT NULL
{%- endmacro -%}
