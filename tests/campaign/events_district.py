"""A neighbour in some lives, to whom nothing happens, and the district's file of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rollbook import settings
from rollbook.features.district.build import Built, build
from rollbook.institutions import Registry
from tests.campaign.campaign import Campaign, event
from tests.campaign.disk import STOPPED, PowerFailedError, Trouble
from tests.campaign.ledger import differences

MAX_STEPS = 20  # a build has about ten


@event(lambda c: c.neighbour is not None, weight=30)
def the_districts_file_is_built(c: Campaign) -> None:
    assert c.neighbour is not None
    folder = c.made / "district"
    file = folder / "district.duckdb"
    both = {"ash": c, "elm": c.neighbour}
    with registered(folder, both) as registry:
        if c.random.random() < 0.5:
            had = file.exists()
            trouble = Trouble(STOPPED, c.random.randint(1, MAX_STEPS), c.random)
            with suppress(PowerFailedError), c.disk.at_work(trouble):
                build(folder / settings.DISTRICT, registry)
            c.note(f"the first attempt is stopped at step {c.disk.steps}")
            assert file.exists() or not had, "readers have lost the district's file"
        built = build(folder / settings.DISTRICT, registry)
    assert not built.failed, built.failed
    for name, institution in both.items():
        look_at(c, file, name, institution, built)


@contextmanager
def registered(folder: Path, institutions: dict[str, Campaign]) -> Iterator[Registry]:
    """A district of the warehouses, in whatever folders."""
    folder.mkdir(exist_ok=True)
    lines = []
    for name, institution in institutions.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(institution.warehouse)
        lines.append(f'[{name}]\nbase_url = "{institution.service.url}"\n')
    (folder / "institutions.toml").write_text("".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROLLBOOK_INSTITUTIONS", str(folder / "institutions.toml"))
        patch.setenv("ROLLBOOK_WAREHOUSE", str(folder))
        registry = settings.registry()
        assert registry is not None
        yield registry


def look_at(c: Campaign, file: Path, name: str, institution: Campaign, built: Built) -> None:
    """All that counts at an institution is in the file; what cannot be read is named, and leaves no row."""
    expected = {t: rows for t, rows in institution.ledger.tables().items() if not t.endswith(".institution")}
    with institution.reading(file) as con:
        merged = {
            table: con.execute(f"SELECT * EXCLUDE (institution) FROM {table} WHERE institution = $1", [name]).fetchall()
            for table in expected
        }
    if name in built.left_out:
        c.note(f"{name} is left out: {built.left_out[name]}")
        assert not institution.fresh, built.left_out
        assert not any(merged.values()), f"{name} is left out, and has rows"
    elif institution.fresh:
        assert not (wrong := list(differences(merged, expected))), "\n".join([f"the district's file, {name}:", *wrong])
