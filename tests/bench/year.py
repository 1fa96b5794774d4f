"""A year of history of a school of any size, written straight into a database's tables: `python -m tests.bench --year`.

What the views cost depends on the history, not on how it came about. Landing a year night by night takes hours; made by
SQL it takes a minute. One student in fifty changes on a day, some leave for good, a class changes every week; one date in
thirteen was not landed, and one night in twenty was unproven.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import duckdb

from pipelines.store import ops, schema
from pipelines.store.database import connect
from pipelines.tables import TABLES
from pipelines.views import catalog, thresholds

FIRST = date(2026, 1, 1)
DAYS = 365
# What making it takes; what is asked of it is asked with the defaults.
MEMORY = "4GB"

# v counts the changes of a student or class so far; valid_from and valid_to are its days. A name changes every twelfth
# time, one of the five classes every fifth; of the classes' own records the title and the like every ninth.
MADE: tuple[str, ...] = (
    f"""CREATE TEMP TABLE landed AS SELECT DATE '{FIRST}' + CAST(d AS INTEGER) AS day
        FROM RANGE({DAYS}) AS r(d) WHERE d % 13 <> 5""",
    "INSERT INTO spans.days SELECT day, HASH(day) FROM landed",
    "INSERT INTO spans.proven SELECT day, UNNEST(['students', 'classes']) FROM landed WHERE HASH(day) % 20 <> 0",
    # The day of leaving is a landed one: a version ends on a landed day.
    f"""CREATE TEMP TABLE leaving AS SELECT id, MIN(day) AS day FROM RANGE(1, $students + 1) AS i(id), landed
        WHERE HASH(id, 1) % 20 = 0 AND day > DATE '{FIRST}' + CAST(7 + HASH(id, 2) % 350 AS INTEGER) GROUP BY id""",
    f"""CREATE TEMP TABLE p AS
        SELECT id, ROW_NUMBER() OVER w - 1 AS v, l.day AS valid_from, COALESCE(LEAD(l.day) OVER w, g.day) AS valid_to
        FROM RANGE(1, $students + 1) AS i(id) CROSS JOIN landed AS l LEFT JOIN leaving AS g USING (id)
        WHERE (l.day = DATE '{FIRST}' OR HASH(id, l.day) % 50 = 0) AND COALESCE(l.day < g.day, TRUE)
        WINDOW w AS (PARTITION BY id ORDER BY l.day)""",
    f"""CREATE TEMP TABLE c AS
        SELECT id, ROW_NUMBER() OVER w - 1 AS v, day AS valid_from, LEAD(day) OVER w AS valid_to
        FROM RANGE(1, $students // 5 + 1) AS i(id), landed WHERE day = DATE '{FIRST}' OR HASH(id, day) % 7 = 0
        WINDOW w AS (PARTITION BY id ORDER BY day)""",
    *(
        f"""CREATE TEMP TABLE {name} AS
            SELECT id, v // {every} AS v, MIN(valid_from) AS valid_from,
                CASE WHEN COUNT(valid_to) = COUNT(*) THEN MAX(valid_to) END AS valid_to
            FROM {of} GROUP BY id, v // {every}"""
        for name, of, every in (("p5", "p", 5), ("p12", "p", 12), ("c9", "c", 9))
    ),
)
# The rows of each table's history.
ROWS = {
    "students": """SELECT id AS student_id, 'pupil.' || id || '@school.example' AS email, 'Pupil ' || id || ' ' || v AS name,
        'R-' || id AS reference_id, DATE '2025-08-01' AS registration_date, 1 AS is_registered, * FROM p12""",
    "student_summaries": """SELECT id AS student_id, 40 + v AS total_assignments, HASH(id) % 30 + v AS completed_assignments,
        LEAST(100, 100 * (HASH(id) % 30 + v) / (40 + v)) AS completion_rate, HASH(id, v) % 1000 / 10 AS average_score,
        37.5 * v AS total_time_minutes, valid_from - 1 AS last_activity_date, * FROM p""",
    "student_activity": """SELECT id AS student_id, DATE '2025-09-01' AS first_login_date, TRUE AS has_ever_logged_in,
        valid_from - 1 AS last_activity_date, v AS assignment_submission_count, * FROM p WHERE id % 50 <> 3""",
    "student_classes": """SELECT id AS student_id, 1 + (id * 7 + k * 131 + (v + 4 - k) // 5) % ($students // 5) AS class_id,
        'Class ' || class_id AS class_title, 'Course' AS course_name, MIN(valid_from) AS valid_from,
        CASE WHEN COUNT(valid_to) = COUNT(*) THEN MAX(valid_to) END AS valid_to
        FROM p5, RANGE(5) AS r(k) WHERE id % 100 <> 7 GROUP BY id, k, class_id""",
    "classes": """SELECT id AS class_id, 'Class ' || id AS class_title, 1 AS class_status, 1 + id % 60 AS course_id,
        'Course ' || id % 60 AS course_name, 1 + id % 90 AS teacher_id, 20 + v % 10 AS student_count, * FROM c9""",
    "class_summaries": """SELECT id AS class_id, HASH(id, v) % 1000 / 10 AS average_completion_rate,
        HASH(v, id) % 1000 / 10 AS average_score, 480 * v AS total_engagement_minutes, * FROM c""",
    "class_assignment_activity": """SELECT id AS class_id, 10 + v AS assignment_count, 20 + v % 10 AS students_enrolled,
        v % 20 AS students_with_submissions, 20 + v % 10 - v % 20 AS students_without_submissions, * FROM c""",
}
# Of the students without a class, half say that there is none, and half have never said.
UNSTATED = """INSERT INTO spans.student_classes BY NAME
    SELECT id AS student_id, CASE WHEN id % 200 = 7 THEN 'empty' ELSE 'mute' END AS span_state, valid_from AS first_day,
        valid_to - 1 AS last_day
    FROM p12 WHERE id % 100 = 7"""
CHANGED = """INSERT INTO main.changes BY NAME
    SELECT {key}, snapshot_date, '{table}' AS table_name, 'changed' AS change, name AS column_name, old_value, new_value
    FROM (
        SELECT {keys}, valid_from AS snapshot_date, LAG(valid_to) OVER w = valid_from AS follows,
            UNNEST([{names}]) AS name, UNNEST([{old}]) AS old_value, UNNEST([{new}]) AS new_value
        FROM history.{table} WINDOW w AS (PARTITION BY {key} ORDER BY valid_from)
    )
    WHERE follows AND old_value IS DISTINCT FROM new_value
    ORDER BY snapshot_date"""
CAME_AND_WENT = """INSERT INTO main.changes BY NAME
    SELECT {key}, valid_from AS snapshot_date, '{table}' AS table_name, 'added' AS change
    FROM history.{table} ANTI JOIN history.{table} AS b ON {same} AND b.valid_to = {table}.valid_from
    UNION ALL
    SELECT {key}, valid_to, '{table}', 'removed'
    FROM history.{table} ANTI JOIN history.{table} AS b ON {same} AND b.valid_from = {table}.valid_to
    WHERE valid_to IS NOT NULL"""


def write(path: Path, students: int) -> date:
    """Make the file, with its views; returns its newest landed day."""
    with connect(path, scratch=path.parent / "spill") as con:
        con.execute(f"SET memory_limit = '{MEMORY}'")
        schema.ensure(con)
        thresholds.fill(con, thresholds.DEFAULTS)
        for statement in MADE:
            con.execute(statement.replace("$students", str(students)))
        for table, query in ROWS.items():
            _fill(con, table, query.replace("$students", str(students)))
        con.execute(UNSTATED)
        catalog.create_macros(con, ops.stamp(con, datetime.now(UTC)))
        catalog.create_views(con)
        newest: date = con.execute("SELECT MAX(snapshot_date) FROM spans.days").fetchall()[0][0]
    return newest


def _fill(con: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    """One table: its history as nights append it, what is current, the runs, and what changed."""
    table = TABLES[name]
    columns = {row[0] for row in con.execute(f"DESCRIBE {query}").fetchall()}
    kept = ", ".join(c.name for c in table.versioned if c.name in columns)
    con.execute(
        f"INSERT INTO history.{name} BY NAME SELECT {kept}, valid_from, valid_to FROM ({query}) ORDER BY valid_from"
    )
    con.execute(f"INSERT INTO main.{name} BY NAME SELECT {kept} FROM history.{name} WHERE valid_to IS NULL")
    con.execute(
        f"""INSERT INTO spans.{name} BY NAME
        SELECT {kept}, 'stated' AS span_state, valid_from AS first_day, valid_to - 1 AS last_day FROM history.{name}"""
    )
    told = [c.name for c in table.tracked if c.name in columns]
    parts = {
        "table": name,
        "key": ", ".join(table.key),
        "same": " AND ".join(f"b.{k} = {name}.{k}" for k in table.key),
        "names": ", ".join(f"'{c}'" for c in told),
        "old": ", ".join(f"CAST(LAG({c}) OVER w AS VARCHAR)" for c in told),
        "new": ", ".join(f"CAST({c} AS VARCHAR)" for c in told),
    }
    con.execute(CHANGED.format(**parts, keys=parts["key"]))
    con.execute(CAME_AND_WENT.format(**parts))
