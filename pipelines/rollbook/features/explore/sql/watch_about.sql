-- Explore: of some students, the day since when they are, or were, to watch without a break (NULL if for longer than a
-- hundred days), and their classes on a day.
SELECT spells.student_id, spells.since, titles.classes
FROM (
    SELECT student_id, MAX(snapshot_date) FILTER (change IS NULL OR change = 'newly to watch') AS since
    FROM watch_daily_of({{ students }}, from_day := CAST($day AS DATE) - 100)
    WHERE snapshot_date <= CAST($day AS DATE)
    GROUP BY student_id
) AS spells
LEFT JOIN (
    SELECT student_id, STRING_AGG(class_title, '; ' ORDER BY class_title, class_id) AS classes
    FROM history.student_classes
    WHERE valid_from <= CAST($day AS DATE) AND (valid_to IS NULL OR valid_to > CAST($day AS DATE))
        AND student_id IN (SELECT UNNEST({{ students }}))
    GROUP BY student_id
) AS titles USING (student_id)
