-- metrics: One row per measure that the views share: its definition, its SQL and its grain.
-- key: name
--
--   name        The measure's name.
--   definition  What it means, in words.
--   expression  Its SQL, over the columns of source.
--   grain       The columns that each value belongs to, comma-separated.
--   source      The FROM clause of the expression.
--   shown_in    The view.column that shows the measure; NULL if it is only a part of other measures.
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
