"""The fixtures of the fault matrix: a warehouse after night 1, and a cell to play."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault_matrix.cell import Cell
from tests.fault_matrix.expected import CAP, CLASSES_1, CLASSES_2, STUDENTS_1, STUDENTS_2, TOGETHER
from tests.support.nights import Expected, House, folder
from tests.support.wire.service import Service

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` plays one cell of each test, and in `test_alone.py` each fault once; all the others are slow."""
    played: set[tuple[str, str]] = set()
    for item in items:
        if HERE in item.path.parents:
            params = getattr(getattr(item, "callspec", None), "params", {})
            cell = {(item.path.name, getattr(item, "originalname", item.name))}
            if item.path.name == "test_alone.py":
                named = [params[key] for key in ("name", "one", "other") if key in params]
                cell |= {("fault", fault) for name in named for fault in TOGETHER.get(name, (name,))}
            if cell <= played:
                item.add_marker(pytest.mark.slow)
            played |= cell


@pytest.fixture(scope="session")
def first_night() -> Iterator[Path]:
    """The warehouse after a clean night 1."""
    with folder() as root, Service(STUDENTS_1, CLASSES_1, cap=CAP) as service:
        house = House(root / "warehouse", service)
        house.sync()
        assert house.tables() == Expected().night(1, STUDENTS_1, CLASSES_1).tables()
        yield house.warehouse


@pytest.fixture
def cell(first_night: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    with folder() as root, Service(STUDENTS_2, CLASSES_2, cap=CAP) as service:
        shutil.copytree(first_night, root / "warehouse", symlinks=True)
        yield Cell(House(root / "warehouse", service).at(2), monkeypatch)
