-- {{ into }} as the pseudonymous file has it: codes for ids, nothing in personal columns, rows in the order of the codes.
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
