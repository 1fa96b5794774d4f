{#- Each ISO week with a landed day, its last landed day, and its number of landed days; shared by the weekly views. -#}
{%- macro landed() -%}
SELECT
        CAST(DATE_TRUNC('week', snapshot_date) AS DATE) AS week_begins,
        MAX(snapshot_date) AS snapshot_date,
        COUNT(*) AS landed_days
    FROM spans.days GROUP BY ALL
{%- endmacro -%}
