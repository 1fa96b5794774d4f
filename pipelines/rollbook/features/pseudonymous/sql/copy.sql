-- {{ into }} for the pseudonymous file: codes instead of ids, NULL in personal columns, rows ordered by code.
INSERT INTO {{ into }}
SELECT {{ values | join(", ") }}
FROM named.{{ into }} AS t
{% if order %}
LEFT JOIN private.codes AS c ON c.id = t.{{ student }}
{% endif %}
{% if only %}
WHERE {{ only }}
{% endif %}
{% if order %}
ORDER BY {{ order | join(", ") }}
{% endif %}
