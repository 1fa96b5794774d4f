-- The versions of {{ table }} that began before a day and reach to it: until when they last, by what is folded now.
UPDATE history.{{ table }} AS h SET valid_to = f.valid_to
FROM folded AS f
WHERE {{ same }} AND f.valid_from < $since AND h.valid_from < $since
    AND (h.valid_to IS NULL OR h.valid_to >= $since) AND h.valid_to IS DISTINCT FROM f.valid_to
