-- Explore: how many classes are active.
SELECT COUNT(*) FROM main.classes WHERE class_status = 1
