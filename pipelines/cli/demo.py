"""`rollbook demo`: a fortnight of a made-up school, synced day by day, and what a person would want to see of it.

The demo takes the ordinary way: a sandbox on loopback, the nightly job, the warehouse's own folder. Only the clock is
the sandbox's.
"""

from __future__ import annotations

import os
import time
from datetime import date, timedelta
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from pipelines.cli import job
from pipelines.cli.app import app, err, out, table
from pipelines.errors import OtherInstitutionError
from pipelines.settings import PREFIX, ROOT, Settings, load
from pipelines.store.ask import ask
from pipelines.sync import Rollbook

KEY = "sandbox-key"
DAYS = 14

QUERIES = (
    (
        "Who needs a look: low completion, and not seen for a week?",
        """SELECT s.student_id, s.name, m.completion_rate, a.days_since_last_activity
FROM students AS s JOIN student_summaries AS m USING (student_id) JOIN student_activity AS a USING (student_id)
WHERE m.completion_rate < 50 AND a.days_since_last_activity > 7
ORDER BY m.completion_rate LIMIT 5""",
    ),
    (
        "Which classes do best, and who teaches them?",
        """SELECT c.class_title, c.teacher_name, c.student_count, m.average_completion_rate, m.average_score
FROM classes AS c JOIN class_summaries AS m USING (class_id)
WHERE c.class_status = 1 ORDER BY m.average_completion_rate DESC LIMIT 5""",
    ),
    (
        "What was one student's record a week ago, and what is it now?",
        """SELECT valid_from, valid_to, completed_assignments, total_assignments, completion_rate, average_score
FROM history.student_summaries
WHERE student_id = (SELECT student_id FROM history.student_summaries GROUP BY 1 ORDER BY COUNT(*) DESC, 1 LIMIT 1)
ORDER BY valid_from DESC LIMIT 5""",
    ),
)


@app.command()
def demo(
    students: Annotated[int, typer.Option(min=50, help="How many students the made-up school has.")] = 500,
    days: Annotated[int, typer.Option(min=2, help="How many days are played, up to today.")] = DAYS,
) -> None:
    """Sync a fortnight of a made-up school, day by day, and show what came of it."""
    from pipelines.sandbox import DEFAULT_SCHOOL, Sandbox

    began = time.monotonic()
    with Sandbox(students, api_key=KEY) as sandbox:
        settings = prepare(sandbox.base_url, days)
        rollbook = Rollbook(settings)
        start_afresh(rollbook, DEFAULT_SCHOOL.id)
        played = [rollbook.today() - timedelta(days=n) for n in reversed(range(days))]
        out.print(
            f"A made-up school of {students} students, on {sandbox.base_url}; {days} nights, each a run of the job."
        )
        with Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=err
        ) as bars:
            task = bars.add_task("syncing", total=days)
            for day in played:
                sandbox.day = day
                bars.update(task, description=f"syncing {day}")
                job.sync(day)
                bars.advance(task)
            bars.update(task, description="synced")
    show(rollbook, played[-1])
    out.print(f"\nAll of it took {time.monotonic() - began:.0f} s.")


def prepare(base_url: str, days: int) -> Settings:
    """Point this process's settings at the sandbox; where the warehouse is and which zone it is in stay as set."""
    first = date.today() - timedelta(days=days)  # noqa: DTZ011 - a day earlier than the first, in any zone
    os.environ |= {
        f"{PREFIX}BASE_URL": base_url,
        f"{PREFIX}API_KEY": KEY,
        f"{PREFIX}FIRST_DATE": str(first),
        # A small school's normal night must not end a demonstration.
        f"{PREFIX}HOLD_CHANGED_PERCENT": "100",
    }
    return load()


def start_afresh(rollbook: Rollbook, school_id: int) -> None:
    """Remove an earlier demo's data. Raises OtherInstitutionError where the warehouse holds anybody else's."""
    bound = rollbook.bound_to()
    if bound not in (None, school_id):
        raise OtherInstitutionError(
            f"{rollbook.warehouse.root} holds the records of institution {bound}, and a demo would be in its way: set"
            " ROLLBOOK_WAREHOUSE to another folder"
        )
    if bound is not None:
        with rollbook.writer():
            rollbook.repair.clear()


def show(rollbook: Rollbook, last: date) -> None:
    """What was synced, what changed last night, three questions with their answers, and where to go from here."""
    published = rollbook.warehouse.published

    def rows(query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return ask(published, query, parameters).rows

    nights = """SELECT snapshot_date, outcome, proven, students, classes, rows_added, rows_changed, rows_removed
                FROM ops.syncs ORDER BY snapshot_date"""
    out.print()
    out.print(
        table(
            "What was synced",
            ("night", "outcome", "proven", "students", "classes", "added", "changed", "removed"),
            rows(nights),
        )
    )
    changed = """SELECT table_name, COALESCE(column_name, ''), change, COUNT(*) FROM changes WHERE snapshot_date = $day
                 GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2 LIMIT 12"""
    out.print()
    headings = ("table", "column", "change", "how often")
    out.print(table(f"What changed last night ({last})", headings, rows(changed, day=last)))
    for question, query in QUERIES:
        out.print(f"\n[bold]{question}[/]")
        out.print(Syntax(query, "sql", background_color="default", word_wrap=True))
        answer = ask(published, query)
        out.print(table("", answer.columns, answer.rows))
    size = published.stat().st_size / 1e6
    shown = published.relative_to(ROOT) if published.is_relative_to(ROOT) else published
    out.print(f"\n[bold]The file[/]  {escape(str(shown))} ({size:.1f} MB): open it with anything that speaks DuckDB.")
    out.print("[bold]The UI[/]    .venv/bin/rollbook serve --demo, then http://127.0.0.1:3000: the graph, the runs.")
    out.print("[bold]For real[/]  put ROLLBOOK_BASE_URL and ROLLBOOK_API_KEY into .env, then .venv/bin/rollbook sync")
