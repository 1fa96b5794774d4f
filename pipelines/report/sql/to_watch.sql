-- For the morning page: the newest day's students who are or were to watch; names only if requested.
CREATE OR REPLACE TEMP TABLE to_watch AS
SELECT
    student_id, change, severity, reason_count,
    {% if names %}
    name, reason,
    {% endif %}
    {{ m.names(flags) }}
FROM main.watch_daily WHERE snapshot_date = {{ day }}
