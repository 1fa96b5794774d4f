-- Update valid_to of the versions of {{ table.name }} that began before a day and reach it.
UPDATE history.{{ table.name }} AS h SET valid_to = f.valid_to
FROM folded AS f
WHERE {{ m.same(table.key, "h", "f") }} AND f.valid_from < $since AND h.valid_from < $since
    AND (h.valid_to IS NULL OR h.valid_to >= $since) AND h.valid_to IS DISTINCT FROM f.valid_to
