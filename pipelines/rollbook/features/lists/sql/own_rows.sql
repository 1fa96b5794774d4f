-- The rows of all lists, as the landed days say: about whom, from when to when, and the values. And who took which line.
--
-- Each day counts the list as it was landed; where the list could not be read, or nobody saw which there were, as on the
-- day before. A line is about whoever has its id, reference id, email or code on that day, by the first of its ids that
-- somebody has; an email that two students share is about neither. Of two lines about one student the last counts.
CREATE OR REPLACE TEMP TABLE own_runs AS
WITH days AS (SELECT snapshot_date AS day FROM spans.days),
lists AS (SELECT DISTINCT list FROM spans.own_days WHERE list <> ''),
-- A digest; NULL to go on with what was; empty for a list that has ended.
said AS (
    SELECT l.list, d.day, CASE WHEN o.list IS NOT NULL THEN o.digest WHEN seen.day IS NOT NULL THEN '' END AS digest
    FROM lists AS l CROSS JOIN days AS d
    LEFT JOIN spans.own_days AS o ON o.list = l.list AND o.day = d.day
    LEFT JOIN spans.own_days AS seen ON seen.list = '' AND seen.day = d.day
),
held AS (
    SELECT list, day, LAST_VALUE(digest IGNORE NULLS) OVER (PARTITION BY list ORDER BY day) AS digest FROM said
),
changed AS (
    SELECT * FROM held WHERE digest IS NOT NULL
    QUALIFY LAG(digest) OVER (PARTITION BY list ORDER BY day) IS DISTINCT FROM digest
)
SELECT
    list, digest, day AS first_day, COALESCE(LEAD(day) OVER (PARTITION BY list ORDER BY day), DATE 'infinity') AS until
FROM changed;

-- Who has an id, reference id, email or code, from when to when.
CREATE OR REPLACE TEMP TABLE own_owners AS
WITH named AS (
    {% for about, table, column in kinds %}
    SELECT
        '{{ about }}' AS about, LOWER(CAST({{ column }} AS VARCHAR)) AS who,
        {% if about == "teacher_email" %}LOWER({{ column }}){% else %}CAST({{ key_of[table] }} AS VARCHAR){% endif %} AS id,
        valid_from, COALESCE(valid_to, DATE 'infinity') AS valid_to
    FROM history.{{ table }} WHERE {{ column }} IS NOT NULL
    {% if not loop.last %}
    UNION ALL
    {% endif %}
    {% endfor %}
),
wanted AS (
    SELECT n.* FROM named AS n SEMI JOIN spans.own_lines AS l ON l.about = n.about AND LOWER(l.who) = n.who
),
-- A version begins with any other value, too: the stretches in which only this one counts.
marked AS (
    SELECT
        *, valid_from <= MAX(valid_to) OVER (
            PARTITION BY about, who, id ORDER BY valid_from, valid_to ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS goes_on
    FROM wanted
),
numbered AS (
    SELECT
        *, COUNT(*) FILTER (goes_on IS DISTINCT FROM TRUE) OVER (
            PARTITION BY about, who, id ORDER BY valid_from, valid_to ROWS UNBOUNDED PRECEDING
        ) AS stretch
    FROM marked
)
SELECT about, who, id, MIN(valid_from) AS valid_from, MAX(valid_to) AS valid_to
FROM numbered GROUP BY about, who, id, stretch;

-- Each line with whom it is about, from when to when.
CREATE OR REPLACE TEMP TABLE own_taken AS
WITH found AS (
    SELECT
        r.list, r.first_day, l.line, l.rank, l.about, o.id,
        GREATEST(r.first_day, o.valid_from) AS since, LEAST(r.until, o.valid_to) AS until
    FROM own_runs AS r
    INNER JOIN spans.own_lines AS l ON l.digest = r.digest
    INNER JOIN own_owners AS o
        ON o.about = l.about AND o.who = LOWER(l.who) AND o.valid_from < r.until AND o.valid_to > r.first_day
),
edges AS (
    SELECT list, first_day, line, since AS day FROM found
    UNION
    SELECT list, first_day, line, until FROM found
),
pieces AS (
    SELECT list, first_day, line, day, LEAD(day) OVER (PARTITION BY list, first_day, line ORDER BY day) AS until
    FROM edges
),
owned AS (
    SELECT
        f.list, f.first_day, f.line, f.rank, f.about, f.id, p.day AS since, p.until,
        MIN(f.rank) OVER (PARTITION BY f.list, f.first_day, f.line, p.day) AS first_rank,
        COUNT(*) OVER (PARTITION BY f.list, f.first_day, f.line, p.day, f.rank) AS owners
    FROM pieces AS p
    INNER JOIN found AS f
        ON f.list = p.list AND f.first_day = p.first_day AND f.line = p.line
        AND f.since <= p.day AND f.until >= p.until
)
SELECT list, first_day, line, about, id, since, until
FROM owned WHERE rank = first_rank AND (about <> 'email' OR owners = 1);

CREATE OR REPLACE TEMP TABLE own_rows AS
WITH edges AS (
    SELECT list, first_day, id, since AS day FROM own_taken
    UNION
    SELECT list, first_day, id, until FROM own_taken
),
pieces AS (
    SELECT list, first_day, id, day, LEAD(day) OVER (PARTITION BY list, first_day, id ORDER BY day) AS until FROM edges
),
last AS (
    SELECT p.list, p.first_day, p.id, p.day AS since, p.until, MAX(t.line) AS line
    FROM pieces AS p
    INNER JOIN own_taken AS t
        ON t.list = p.list AND t.first_day = p.first_day AND t.id = p.id AND t.since <= p.day AND t.until >= p.until
    GROUP BY p.list, p.first_day, p.id, p.day, p.until
),
said AS (
    SELECT a.list, a.id, a.since, a.until, h.subject, CAST(l.cells AS VARCHAR) AS cells
    FROM last AS a
    INNER JOIN own_runs AS r ON r.list = a.list AND r.first_day = a.first_day
    INNER JOIN spans.own_lists AS h ON h.digest = r.digest
    INNER JOIN spans.own_lines AS l ON l.digest = r.digest AND l.line = a.line AND l.rank = 1
),
marked AS (
    SELECT
        *, LAG(until) OVER w IS NOT DISTINCT FROM since AND LAG(cells) OVER w IS NOT DISTINCT FROM cells
        AND LAG(subject) OVER w IS NOT DISTINCT FROM subject AS goes_on
    FROM said WINDOW w AS (PARTITION BY list, id ORDER BY since)
),
numbered AS (
    SELECT *, COUNT(*) FILTER (NOT goes_on) OVER (PARTITION BY list, id ORDER BY since ROWS UNBOUNDED PRECEDING) AS stretch
    FROM marked
)
SELECT
    list, subject, id, ANY_VALUE(cells) AS cells, MIN(since) AS valid_from,
    NULLIF(MAX(until), DATE 'infinity') AS valid_to
FROM numbered GROUP BY list, subject, id, stretch;
