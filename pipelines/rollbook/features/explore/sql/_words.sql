{#- Whether some columns together hold every word of the text that is asked for, in any order (Berg, Anna), whatever
    the case, the accents, the kind of apostrophe and the kind of blank. -#}
{%- macro plain(text) -%}
TRANSLATE(REPLACE(REPLACE(STRIP_ACCENTS(LOWER({{ text }})), 'ß', 'ss'), 'æ', 'ae'), 'łøđıς''’‘ʼ´`', 'lodiσ')
{%- endmacro -%}

{%- macro held(columns) -%}
LEN(LIST_FILTER(
    REGEXP_SPLIT_TO_ARRAY({{ plain("$text") }}, '[\s\p{Z}\p{Pd},]+'),
    lambda word: NOT CONTAINS({{ plain("CONCAT_WS(' ', " ~ columns ~ ")") }}, word)
)) = 0
{%- endmacro -%}
