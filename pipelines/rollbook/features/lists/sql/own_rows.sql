-- The rows of all lists, as the landed days say: about whom, from when to when, and the values. And who took which line.
--
-- Each day counts the list as it was landed; where the list could not be read, or nobody saw which there were, as on the
-- day before. A line is about who has its id, reference id, email or code on that day, by the first of its ids that
-- somebody has; an email that two students share is about neither. Of two lines about one student the last counts.
CREATE OR REPLACE TEMP TABLE own_runs AS
WITH days AS (SELECT snapshot_date AS day FROM spans.days),
lists AS (SELECT DISTINCT list FROM spans.own_days WHERE list <> ''),
-- A digest; NULL to go on with what was; empty for a list that has ended.
said AS (
    SELECT l.list, d.day, CASE WHEN o.list IS NOT NULL THEN o.digest WHEN seen.day IS NOT NULL THEN '' END AS digest
    FROM lists AS l CROSS JOIN days AS d
    LEFT JOIN spans.own_days AS o ON o.list = l.list AND o.day = d.day
    LEFT JOIN spans.own_days AS seen
        ON seen.day = d.day AND seen.digest IS NOT NULL
        AND seen.list = CASE WHEN STARTS_WITH(l.list, '{{ month }}') THEN '{{ contacted }}' ELSE '' END
),
held AS (
    SELECT list, day, LAST_VALUE(digest IGNORE NULLS) OVER (PARTITION BY list ORDER BY day) AS digest FROM said
),
changed AS (
    SELECT * FROM held WHERE digest IS NOT NULL
    QUALIFY LAG(digest) OVER (PARTITION BY list ORDER BY day) IS DISTINCT FROM digest
)
SELECT
    list, digest, day AS first_day, COALESCE(LEAD(day) OVER (PARTITION BY list ORDER BY day), DATE 'infinity') AS until,
    ROW_NUMBER() OVER (PARTITION BY list ORDER BY day) AS nth_run
FROM changed;

-- The lists of contacts are another matter (`contacts.sql`).
CREATE OR REPLACE TEMP TABLE contact_runs AS
SELECT * FROM own_runs WHERE STARTS_WITH(list, '{{ month }}') AND digest <> '';
DELETE FROM own_runs WHERE list = '{{ contacted }}' OR STARTS_WITH(list, '{{ month }}');

-- The lines of every content. `line_key` is what a line is known by from one content to the next, and of two lines about
-- one student the one with the larger `nth` counts. Line numbers move when a line is inserted above, so they are used
-- only where lines name somebody in two ways.
CREATE OR REPLACE TEMP VIEW own_keyed AS
SELECT
    digest, line, rank, about, LOWER(who) AS who, CAST(cells AS VARCHAR) AS cells,
    CASE WHEN kinds > 1 THEN line ELSE -ROW_NUMBER() OVER (PARTITION BY digest, LOWER(who) ORDER BY line DESC) END AS nth,
    CASE WHEN kinds > 1 THEN CAST(line AS VARCHAR) ELSE nth || ' ' || LOWER(who) END AS line_key
FROM (SELECT *, MAX(rank) OVER (PARTITION BY digest) AS kinds FROM spans.own_lines)
WHERE who IS NOT NULL;

-- Most lines stay from one content to the next: each as long as it stays.
CREATE OR REPLACE TEMP TABLE own_said AS
WITH each AS (
    SELECT
        r.list, l.subject, k.line_key, k.nth, k.rank, k.about, k.who, k.cells, r.first_day, r.until,
        r.nth_run - ROW_NUMBER() OVER (
            PARTITION BY r.list, l.subject, k.line_key, k.nth, k.rank, k.about, k.who, k.cells ORDER BY r.nth_run
        ) AS stretch
    FROM own_runs AS r
    INNER JOIN spans.own_lists AS l ON l.digest = r.digest
    INNER JOIN own_keyed AS k ON k.digest = r.digest
)
SELECT
    list, subject, line_key, nth, rank, about, who, cells, MIN(first_day) AS since, MAX(until) AS until
FROM each GROUP BY list, subject, line_key, nth, rank, about, who, cells, stretch;

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
    SELECT n.* FROM named AS n SEMI JOIN own_said AS s ON s.about = n.about AND s.who = n.who
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
        s.list, s.subject, s.line_key, s.nth, s.rank, s.about, s.cells, o.id,
        GREATEST(s.since, o.valid_from) AS since, LEAST(s.until, o.valid_to) AS until
    FROM own_said AS s
    INNER JOIN own_owners AS o
        ON o.about = s.about AND o.who = s.who AND o.valid_from < s.until AND o.valid_to > s.since
),
edges AS (
    SELECT list, line_key, since AS day FROM found
    UNION
    SELECT list, line_key, until FROM found
),
pieces AS (
    SELECT list, line_key, day, LEAD(day) OVER (PARTITION BY list, line_key ORDER BY day) AS until FROM edges
),
owned AS (
    SELECT
        f.list, f.subject, f.line_key, f.nth, f.rank, f.about, f.cells, f.id, p.day AS since, p.until,
        MIN(f.rank) OVER (PARTITION BY f.list, f.line_key, p.day) AS first_rank,
        COUNT(*) OVER (PARTITION BY f.list, f.line_key, p.day, f.rank) AS owners
    FROM pieces AS p
    INNER JOIN found AS f
        ON f.list = p.list AND f.line_key = p.line_key AND f.since <= p.day AND f.until >= p.until
)
SELECT list, subject, line_key, nth, cells, id, since, until
FROM owned WHERE rank = first_rank AND (about <> 'email' OR owners = 1);

CREATE OR REPLACE TEMP TABLE own_rows AS
WITH edges AS (
    SELECT list, subject, id, since AS day FROM own_taken
    UNION
    SELECT list, subject, id, until FROM own_taken
),
pieces AS (
    SELECT list, subject, id, day, LEAD(day) OVER (PARTITION BY list, subject, id ORDER BY day) AS until FROM edges
),
said AS (
    SELECT p.list, p.subject, p.id, p.day AS since, p.until, ARG_MAX(t.cells, t.nth) AS cells
    FROM pieces AS p
    INNER JOIN own_taken AS t
        ON t.list = p.list AND t.subject = p.subject AND t.id = p.id AND t.since <= p.day AND t.until >= p.until
    GROUP BY p.list, p.subject, p.id, p.day, p.until
),
marked AS (
    SELECT *, LAG(until) OVER w = since AND LAG(cells) OVER w = cells AS goes_on
    FROM said WINDOW w AS (PARTITION BY list, subject, id ORDER BY since)
),
numbered AS (
    SELECT
        *, COUNT(*) FILTER (goes_on IS DISTINCT FROM TRUE) OVER (
            PARTITION BY list, subject, id ORDER BY since ROWS UNBOUNDED PRECEDING
        ) AS stretch
    FROM marked
)
SELECT
    list, subject, id, ANY_VALUE(cells) AS cells, MIN(since) AS valid_from,
    NULLIF(MAX(until), DATE 'infinity') AS valid_to
FROM numbered GROUP BY list, subject, id, stretch;
