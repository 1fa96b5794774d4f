"""`rollbook demo`: syncs two weeks of a made-up school, day by day, and shows the result.

Like a real sync, it uses HTTP (to a sandbox on loopback) and the nightly job. Its warehouse and Dagster home are in
`demo/` below the institution's warehouse, which is not touched; the institution's `.env` is not read.
"""

from __future__ import annotations

import os
import shutil
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines import files
from pipelines.cli import job
from pipelines.cli.app import Panel, app, err, out, safe, table
from pipelines.errors import OtherInstitutionError
from pipelines.settings import DEMO, INSTITUTION, INSTITUTIONS, PREFIX, ROOT, Settings, common_path, load
from pipelines.store.statements import statements

if TYPE_CHECKING:
    from pipelines.sync import Rollbook

sql = statements("pipelines.cli")

KEY = "sandbox-key"
FOLDER = "demo"
DAYS, SCHOOLS_DAYS = 14, 4

# SQL files whose first line is the question they answer.
VIEWS = ("to_watch", "best", "before")


@app.command(rich_help_panel=Panel.TRY)
def demo(
    students: Annotated[int, typer.Option(min=50, help="How many students a made-up school has.")] = 500,
    days: Annotated[
        int | None, typer.Option(min=2, help="How many days to sync, up to today.", show_default=str(DAYS))
    ] = None,
    schools: Annotated[
        int | None, typer.Option(min=2, max=100, help="Sync several schools, and combine them with two engines.")
    ] = None,
) -> None:
    """Sync two weeks of a made-up school, day by day, and show the result.

    With --schools, a few days of several schools: fleet.duckdb is built by DuckDB and by Sail, and both must agree.
    """
    if schools is not None:
        from pipelines.cli import demo_schools

        demo_schools.play(schools, students, days or SCHOOLS_DAYS, KEY)
        return
    play(students, days or DAYS)


def play(students: int, days: int) -> None:
    """Sync a made-up school day by day, and show the result."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from pipelines.sandbox import Sandbox
    from pipelines.sandbox.calendar import terms as terms_between
    from pipelines.sync import Rollbook
    from pipelines.views import terms

    started = time.monotonic()
    with Sandbox(students, api_key=KEY) as sandbox:
        settings = prepare(sandbox.url, days)
        rollbook = Rollbook(settings)
        remove_earlier_demo(rollbook, sandbox.school["id"])
        played = [rollbook.today() - timedelta(days=n) for n in reversed(range(days))]
        known = [terms.Term(*term) for term in terms_between(played[0], played[-1] + timedelta(days=365))]
        terms.ensure(rollbook.warehouse.root / terms.FILE, known=known)
        out.print(f"A made-up school of {students} students, on {sandbox.url}; {days} nights, each a run of the job.")
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
    out.print(f"\nThe demo took {time.monotonic() - started:.0f} s.")


def choose_warehouse() -> None:
    """Make this process and its children use the demo's warehouse and Dagster home, and no `.env`."""
    warehouse = common_path() / FOLDER
    for name in (INSTITUTION, INSTITUTIONS):  # the demo's school is not in a registry
        os.environ.pop(name, None)
    home = files.folder(warehouse / "dagster_home")
    os.environ |= {DEMO: "1", f"{PREFIX}WAREHOUSE": str(warehouse), "DAGSTER_HOME": str(home)}
    configuration = ROOT / "dagster_home" / "dagster.yaml"
    if configuration.is_file():
        shutil.copyfile(configuration, home / configuration.name)


def prepare(base_url: str, days: int) -> Settings:
    """Point this process's settings at the sandbox and at the demo's warehouse."""
    choose_warehouse()
    first = date.today() - timedelta(days=days)  # noqa: DTZ011 - before the first day in any zone
    os.environ |= {
        f"{PREFIX}BASE_URL": base_url,
        f"{PREFIX}API_KEY": KEY,
        f"{PREFIX}FIRST_DATE": str(first),
        # In a small school a normal night may change more than the hold allows.
        f"{PREFIX}HOLD_CHANGED_PERCENT": "100",
    }
    return load()


def remove_earlier_demo(rollbook: Rollbook, school_id: int) -> None:
    """Remove an earlier demo's data. Raises OtherInstitutionError when the warehouse belongs to another institution."""
    bound = rollbook.bound_to()
    if bound not in (None, school_id):
        raise OtherInstitutionError(
            f"{rollbook.warehouse.root} holds the records of institution {bound}, and the demo would replace them: set"
            " ROLLBOOK_WAREHOUSE to another folder"
        )
    if bound is not None:
        with rollbook.writer():
            rollbook.recovery.clear()


def show(rollbook: Rollbook, last: date) -> None:
    """Print what was synced, what changed last night, three questions with their answers, and what to try next."""
    from rich.syntax import Syntax

    from pipelines.export.query import run_query

    published = rollbook.warehouse.published

    def rows(query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return run_query(published, query, parameters).rows

    out.print()
    out.print(
        table(
            "What was synced",
            ("night", "outcome", "proven", "students", "classes", "added", "changed", "removed"),
            rows("""
                SELECT snapshot_date, outcome, proven, students, classes, rows_added, rows_changed, rows_removed
                FROM sync_log ORDER BY snapshot_date
            """),
        )
    )
    out.print()
    headings = ("table", "column", "change", "how often")
    out.print(
        table(
            f"What changed last night ({last})",
            headings,
            rows(
                """
        SELECT table_name, COALESCE(column_name, ''), change, COUNT(*) FROM changes
        WHERE snapshot_date = $day
        GROUP BY 1, 2, 3
        ORDER BY 4 DESC, 1, 2 LIMIT 12
    """,
                day=last,
            ),
        )
    )
    for question, _, query in (sql(name).strip().partition("\n") for name in VIEWS):
        out.print(f"\n[bold]{question.removeprefix('-- ')}[/]")
        out.print(Syntax(query, "sql", background_color="default", word_wrap=True))
        answer = run_query(published, query)
        out.print(table("", answer.columns, answer.rows))
    size = published.stat().st_size / 1e6
    shown = published.relative_to(ROOT) if published.is_relative_to(ROOT) else published
    out.print(f"\n[bold]The file[/]  {safe(str(shown))} ({size:.1f} MB): open it with anything that speaks DuckDB.")
    out.print("[bold]The UI[/]    .venv/bin/rollbook serve --demo, then http://127.0.0.1:3000: the graph, the runs.")
    out.print("[bold]Explore[/]   .venv/bin/rollbook explore --demo: the school, its classes, its students.")
    out.print("[bold]For real[/]  put ROLLBOOK_BASE_URL and ROLLBOOK_API_KEY into .env, then .venv/bin/rollbook sync")
