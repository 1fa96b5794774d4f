"""`rollbook mirror`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollbook.errors import MirrorError, SettingError
from rollbook.opening import open_rollbook
from rollbook.terminal import (
    Panel,
    app,
    out,
    progress,
    safe,
)
from rollbook.util.machine import in_bytes
from rollbook.util.text import count_of, listed

if TYPE_CHECKING:
    from rollbook.features.mirror.mirror import Mirror
    from rollbook.opened import Rollbook


mirror_app = typer.Typer(
    help="The copy of the warehouse in an object store or another folder (ROLLBOOK_LAKE).", no_args_is_help=True
)


app.add_typer(mirror_app, name="mirror", rich_help_panel=Panel.SYNC)


@mirror_app.command("status")
def mirror_status() -> None:
    """Show what the copy holds, and whether the copy is behind.

    Exits 1 when the copy is behind or cannot be reached, or holds what is missing here.
    """
    _, copy = _mirrored()
    catalog, state = copy.status()
    if catalog is None:
        raise MirrorError(f"Nothing was ever copied to {copy.url}: run `rollbook mirror sync`")
    days = catalog.days()
    size = sum(file.size for file in catalog.files.values())
    span = f" ({days[0]} to {days[-1]})" if days else ""
    out.print(f"{safe(copy.url)} holds {count_of(len(days), 'landed day')}{span}:")
    out.print(f"{count_of(len(catalog.files), 'file')}, {in_bytes(size)}, copied {catalog.made_at:%Y-%m-%d %H:%M} UTC.")
    copy.check_sources()
    behind = copy.behind(catalog)
    if behind or state.failed:
        differs = f"It is not as here in {count_of(len(behind), 'file')}, such as {behind[-1]}. " if behind else ""
        raise MirrorError(differs + (state.failed or "Run `rollbook mirror sync`"))


@mirror_app.command("sync")
def mirror_sync(
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take over the copy of another warehouse that this one replaces.")
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Delete from the copy, too, what is missing here.")
    ] = False,
) -> None:
    """Bring the copy up to date now. Every sync, backfill and erasure does the same at the end.

    Exits 1 when something that was copied is missing here: the copy keeps the file, until it is restored or given up.
    """
    from rollbook.night.writing import writer_lock

    rollbook, copy = _mirrored()
    rollbook.warehouse.prepare()
    with writer_lock(rollbook.warehouse.build, rollbook.clock()), progress() as show:
        message = copy.update(rollbook.clock(), adopt=adopt, accept_loss=accept_loss, progress=show)
    out.print(message)


@mirror_app.command("verify")
def mirror_verify(
    restored: Annotated[
        bool,
        typer.Option(
            "--restore",
            help="Restore the copy to a temporary folder, rebuild it, and compare every row with the published file.",
        ),
    ] = False,
) -> None:
    """Read the whole copy back and compare every checksum.

    With --restore, first brings the copy up to date, then restores the copy into a folder in build/, rebuilds the
    tables there, and compares them row for row with what readers have. Where days have expired, compares the days that
    are left, and reads each published file whole. `rollbook status` then says when the copy was last proven. A sync
    waits meanwhile.

    Exits 1 when a file is missing or differs there, or what the copy holds is missing here, or a row differs.
    """
    rollbook, copy = _mirrored()
    if restored:
        with rollbook.writer().writing(), progress() as show:
            copy.update(rollbook.clock(), progress=show)
            copy.prove(rollbook.clock(), show)
        out.print(f"{copy.remark()}.")
        return
    with progress() as show:
        wrong = copy.verify(show)
    if wrong:
        raise MirrorError(
            f"Missing or damaged in the copy: {listed(wrong)}. Delete what is damaged there, then run `rollbook mirror"
            " sync`"
        )
    out.print("Every file of the copy is intact.")
    copy.check_sources()


@mirror_app.command("restore")
def mirror_restore(
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="An empty folder, or a new one.")],
) -> None:
    """Restore the copy as a warehouse in a folder of its own. The present warehouse is not touched.

    Can be interrupted and run again. `rollbook rebuild` then makes the tables.
    """
    from rollbook.features.mirror.mirror import restore as restore_copy
    from rollbook.reading import access

    opened, copy = _mirrored()
    configured = opened.settings
    into, here = into.expanduser().absolute(), configured.warehouse_path
    log = here if here.is_dir() else into  # on a new machine, there is nothing else

    def note() -> None:
        access.note(log, "mirror restore")

    with progress() as show:
        catalog = restore_copy(copy.url, configured.institution, into, show, began=note)
    out.print(f"Restored {count_of(len(catalog.days()), 'landed day')} into {safe(str(into))}. Now make the tables:\n")
    out.print(f"  ROLLBOOK_WAREHOUSE={safe(str(into))} rollbook rebuild\n")


def _mirrored() -> tuple[Rollbook, Mirror]:
    from rollbook.features.mirror.mirror import Mirror

    rollbook = open_rollbook()
    copy = rollbook.listener(Mirror)
    if not copy.url:
        raise SettingError("ROLLBOOK_LAKE is not set: it says where the copy is, such as s3://bucket/rollbook")
    return rollbook, copy
