{#- Whether some columns together hold every word of the text that is asked for, in any order (Berg, Anna), whatever
    the case, the accents and the kind of blank. -#}
{%- macro plain(text) -%}STRIP_ACCENTS(LOWER({{ text }})){%- endmacro -%}

{%- macro held(columns) -%}
LEN(LIST_FILTER(
    REGEXP_SPLIT_TO_ARRAY({{ plain("$text") }}, '[\s\p{Z},]+'),
    lambda word: NOT CONTAINS({{ plain("CONCAT_WS(' ', " ~ columns ~ ")") }}, word)
)) = 0
{%- endmacro -%}
