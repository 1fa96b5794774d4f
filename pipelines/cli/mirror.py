"""`rollbook mirror`: shows, updates, verifies and restores the copy of the warehouse in an object store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.app import Panel, app, open_rollbook, out, progress_bars, safe
from pipelines.errors import MirrorError, SettingError
from pipelines.machine import in_bytes
from pipelines.settings import load
from pipelines.text import count_of

if TYPE_CHECKING:
    from pipelines.mirror.mirror import Progress
    from pipelines.sync import Rollbook

mirror_app = typer.Typer(
    help="The copy of the warehouse in an object store or another folder (ROLLBOOK_LAKE).", no_args_is_help=True
)
app.add_typer(mirror_app, name="mirror", rich_help_panel=Panel.SYNC)


@mirror_app.command()
def status() -> None:
    """Show what the copy holds, and whether it is behind.

    Exits 1 when it is behind or cannot be reached, or what it holds is missing here.
    """
    rollbook = _rollbook()
    catalog, state = rollbook.mirror.status()
    if catalog is None:
        raise MirrorError(f"Nothing was ever copied to {rollbook.mirror.url}: run `rollbook mirror sync`")
    days = catalog.days()
    size = sum(file.size for file in catalog.files.values())
    span = f" ({days[0]} to {days[-1]})" if days else ""
    out.print(f"{safe(rollbook.mirror.url)} holds {count_of(len(days), 'landed day')}{span}:")
    out.print(f"{count_of(len(catalog.files), 'file')}, {in_bytes(size)}, copied {catalog.made_at:%Y-%m-%d %H:%M} UTC.")
    rollbook.mirror.check_sources()
    behind = sorted(set(rollbook.raw.days()) - set(days))
    if behind or state.failed:
        missing = f"It lacks {count_of(len(behind), 'day')}, such as {behind[-1]}. " if behind else ""
        raise MirrorError(missing + (state.failed or "Run `rollbook mirror sync`"))


@mirror_app.command()
def sync(
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take over the copy of another warehouse that this one replaces.")
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Delete from the copy, too, what is missing here.")
    ] = False,
) -> None:
    """Bring the copy up to date now. Every sync, backfill and erasure does the same when it ends.

    Exits 1 when something that was copied is missing here: the copy keeps it, until it is restored or given up.
    """
    from pipelines.sync.lock import writer_lock

    rollbook = _rollbook()
    rollbook.warehouse.prepare()
    with writer_lock(rollbook.warehouse.build, rollbook.clock()), _progress() as progress:
        done = rollbook.mirror.update(rollbook.clock(), adopt=adopt, accept_loss=accept_loss, progress=progress)
    out.print(
        f"Copied {count_of(done.copied, 'file')} ({in_bytes(done.bytes)}), removed {done.removed}. The copy holds"
        f" {count_of(len(done.days), 'landed day')}."
    )


@mirror_app.command()
def verify() -> None:
    """Read the whole copy back and compare every checksum.

    Exits 1 when a file is missing or differs there, or what the copy holds is missing here.
    """
    rollbook = _rollbook()
    with _progress() as progress:
        wrong = rollbook.mirror.verify(progress)
    if wrong:
        raise MirrorError(
            f"Missing or damaged in the copy: {count_of(len(wrong), 'file')}, such as {wrong[0]}. Delete the damaged"
            " files there, then run `rollbook mirror sync`"
        )
    out.print("Every file of the copy is intact.")
    rollbook.mirror.check_sources()


@mirror_app.command()
def restore(
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="An empty folder, or a new one.")],
) -> None:
    """Restore the copy as a warehouse in a folder of its own. The present warehouse is not touched.

    Can be interrupted and run again. `rollbook rebuild` then makes the tables.
    """
    from pipelines.mirror import restore as restore_copy

    settings = load(fetches=False)
    if not settings.lake:
        raise SettingError("ROLLBOOK_LAKE is not set: it says where the copy is")
    into = into.expanduser().absolute()
    with _progress() as progress:
        catalog = restore_copy(settings.lake, settings.institution, into, progress)
    out.print(f"Restored {count_of(len(catalog.days()), 'landed day')} into {safe(str(into))}. Now make the tables:\n")
    out.print(f"  ROLLBOOK_WAREHOUSE={safe(str(into))} rollbook rebuild\n")


def _rollbook() -> Rollbook:
    rollbook = open_rollbook()
    if not rollbook.mirror.wanted:
        raise SettingError("ROLLBOOK_LAKE is not set: it says where the copy is, such as s3://bucket/rollbook")
    return rollbook


@contextmanager
def _progress() -> Iterator[Progress]:
    """Show a bar of files, if there is a terminal."""
    with progress_bars() as bars:
        task = bars.add_task("files", total=None)
        yield lambda name, done, total: bars.update(task, description=name, completed=done, total=total)
