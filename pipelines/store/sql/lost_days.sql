-- The landed days that the published history holds and the next one does not.
SELECT snapshot_date FROM published.spans.days
EXCEPT
SELECT snapshot_date FROM next.spans.days
