{#- Whose an id is, and which ids are one person's: for student_identities, student_timeline and data_quality. -#}

{#- CTEs that end with `reused`: one row per id and day on which name, email and reference id became other ones all at
    once. Where that holds for 1 % of the students of a day, and for more than one, the school changed its own data. -#}
{%- macro reused() -%}
several AS (SELECT student_id FROM history.students GROUP BY student_id HAVING COUNT(*) > 1),
named AS (
    SELECT
        student_id, valid_from,
        LOWER(name) AS name, LAG(LOWER(name)) OVER same_id AS name_before,
        LOWER(email) AS email, LAG(LOWER(email)) OVER same_id AS email_before,
        reference_id, LAG(reference_id) OVER same_id AS reference_id_before
    FROM history.students SEMI JOIN several USING (student_id)
    WINDOW same_id AS (PARTITION BY student_id ORDER BY valid_from)
),
renamed AS (
    SELECT student_id, valid_from FROM named
    WHERE name <> name_before AND email <> email_before AND reference_id <> reference_id_before
),
renamed_days AS (SELECT valid_from, COUNT(*) AS how_many FROM renamed GROUP BY valid_from),
usual_days AS (
    SELECT d.valid_from
    FROM renamed_days AS d INNER JOIN history.students AS h ON {{ m.valid_on("h", "d.valid_from") }}
    GROUP BY d.valid_from, d.how_many
    HAVING d.how_many = 1 OR d.how_many < 0.01 * COUNT(*)
),
reused AS (SELECT r.* FROM renamed AS r SEMI JOIN usual_days USING (valid_from))
{%- endmacro -%}

{#- What is said of such an id. -#}
{%- set words = "name, email and reference id changed at once: the history before may be another person''s" -%}
