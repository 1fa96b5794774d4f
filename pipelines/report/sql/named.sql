-- For the morning page that names: the students to watch for more than one reason, or falling.
SELECT name, COALESCE(class_titles, 'no class'), reason FROM to_watch
WHERE reason_count > 1 OR is_falling
ORDER BY reason_count DESC, is_falling DESC, name, student_id LIMIT {{ most }}
