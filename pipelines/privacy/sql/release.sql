-- ops.release: the published version that the pseudonymous file was made from, and its release of codes.
CREATE TABLE ops.release AS
SELECT
    v.id AS version,
    v.published_at,
    (SELECT MAX(snapshot_date) FROM named.spans.days) AS newest_day,
    CAST($release AS VARCHAR) AS release,
    CAST($began_at AS TIMESTAMP) AS began_at
FROM named.spans.version AS v
