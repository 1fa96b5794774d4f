"""A house's copy in a folder, and the commands about it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from rollbook.cli import app
from rollbook.features.mirror.mirror import Mirror
from tests.support.nights import House


def copy_of(house: House) -> Path:
    return Path(str(house.over["lake"]).removeprefix("file://"))


def copied_days(house: House) -> list[date]:
    """The days that the copy's catalog lists."""
    catalog, *_ = house.rollbook().listener(Mirror).status()
    assert catalog is not None
    return catalog.days()


def mirror_command(house: House, *arguments: str, **over: Any) -> Result:
    """`rollbook mirror ...`, in this process."""
    return CliRunner().invoke(app, ["mirror", *arguments], env=house.environment(**over))
