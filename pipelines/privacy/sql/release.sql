-- ops.release: which version of the published file the pseudonymous one was made from, and which release of codes it has.
CREATE TABLE ops.release AS
SELECT
    v.id AS version,
    v.published_at,
    (SELECT MAX(snapshot_date) FROM named.spans.days) AS newest_day,
    CAST($release AS VARCHAR) AS release,
    CAST($began_at AS TIMESTAMP) AS began_at
FROM named.spans.version AS v
