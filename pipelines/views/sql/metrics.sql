-- metrics: One row per measure that the views share: what it means, its SQL, and what one value is about.
-- key: name
--
--   name        The measure's name.
--   definition  What it means, in words.
--   expression  Its SQL, over the columns of source.
--   grain       The columns of which each combination has one value.
--   source      What the expression is computed from: the SQL behind FROM.
--   shown_in    The view and column that give the same; NULL for a measure that is only a part of others.
SELECT name, definition, expression, grain, source, NULLIF(shown_in, '') AS shown_in
FROM (
    VALUES
    {% for each in metrics %}
    {% set cells = [each.name, each.definition, each.sql, each.grain | join(", "), each.source, each.shown_in] %}
    (
        {% for cell in cells %}
        '{{ cell | replace("'", "''") }}'{{ "," if not loop.last }}
        {% endfor %}
    ){{ "," if not loop.last }}
    {% endfor %}
) AS declared (name, definition, expression, grain, source, shown_in)
