{#- A run reaches a day or a neighbour of the day. -#}
first_day <= COALESCE($after, $day) AND (last_day IS NULL OR last_day >= COALESCE($before, $day))
