"""`make released`: keeps a warehouse of the present version (see this package)."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from unittest.mock import patch

import pytest

import rollbook
from rollbook.errors import HeldError
from rollbook.features.share.register import Register
from rollbook.night.discard import discard
from rollbook.reading import access
from rollbook.rights.erasure import erase
from rollbook.util import machine
from tests.support.nights import House, folder, night
from tests.support.warehouses.released import HERE, LISTED, SECOND, SETTINGS, Told, go_on, service_of, told

# The archive stands in git, for ever.
MOST_BYTES = 300_000


def play(house: House) -> None:
    """A week with a second landing, a discard, a hold, an erasure, an unproven night, expired days and an own list."""
    own = house.warehouse / "own" / "year_groups.csv"
    own.parent.mkdir(parents=True)
    own.write_text("student_id,year,tutor\n" + "".join(f"{n},{9 + n % 3},T{n}\n" for n in range(1, 14)), "utf-8")
    house.night(1, LISTED[1])
    house.night(2, LISTED[2])
    house.service.students = SECOND
    house.sync()
    own.write_text("reference_id;year;tutor\n" + "".join(f"R-{n};11;Müller\n" for n in range(1, 9)), "utf-8")
    house.night(3, LISTED[3])
    house.night(4, LISTED[4])
    discard(house.rollbook().writer(), night(4), reason="the service was wrong")
    with pytest.raises(HeldError):
        house.night(5, LISTED[5])
    house.night(6, LISTED[6])
    erase(house.rollbook().writer(), 3, reason="case 12", confirm=lambda _: True)
    house.night(7, LISTED[7])
    access.note(house.warehouse, "query")
    Register(house.warehouse).add("reports", names=False, at=house.now)


def keep(house: House, archive: Path) -> None:
    """Pack the warehouse, without what is of this machine."""

    def member(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if Path(info.name).name in ("build", "report.html", ".shares.lock", ".access.lock"):
            return None
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = int(house.now.timestamp())
        return info

    with tarfile.open(archive, "w:xz", preset=9) as packed:
        packed.add(house.warehouse, "warehouse", filter=member)
    if archive.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{archive.name} has {archive.stat().st_size:,} bytes; {MOST_BYTES:,} may stand in git")


def written(each: dict[str, Told]) -> str:
    """What readers had, a row on a line, so that a difference can be read."""
    tables = (
        f' "{when}": {{\n'
        + ",\n".join(
            f'  "{name}": {{"columns": {json.dumps(table["columns"])}, "rows": [\n'
            + ",\n".join(f"   {json.dumps(row, ensure_ascii=False)}" for row in table["rows"])
            + "\n  ]}"
            for name, table in told_then.items()
        )
        + "\n }"
        for when, told_then in each.items()
    )
    return "{\n" + ",\n".join(tables) + "\n}\n"


def main() -> int:
    """Play, keep, go on."""
    release = rollbook.__version__
    with (
        patch.object(machine, "login", return_value=""),
        patch.object(machine, "account", return_value="office"),
        folder() as root,
        service_of(1) as service,
    ):
        house = House(root / "warehouse", service, **SETTINGS)
        play(house)
        keep(house, HERE / f"{release}.tar.xz")
        kept = told(house)
        house.at(8)
        go_on(house)
        (HERE / f"{release}.json").write_text(written({"kept": kept, "gone_on": told(house)}), "utf-8")
    print(f"Kept {HERE.name}/{release}.tar.xz and .json: commit them.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
