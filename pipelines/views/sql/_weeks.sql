{#- Each ISO week with a landed day, its last one, and how many it has: what the views by week share. -#}
{%- macro landed() -%}
SELECT
        {{ scope.id }}CAST(DATE_TRUNC('week', snapshot_date) AS DATE) AS week_begins,
        MAX(snapshot_date) AS snapshot_date,
        COUNT(*) AS landed_days
    FROM spans.days GROUP BY ALL
{%- endmacro -%}
