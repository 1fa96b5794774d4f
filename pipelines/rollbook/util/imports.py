"""Keeps the processes of Rollbook's own light: they import no package that only another package would like to have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

# pyarrow imports numpy and pandas if they are installed, and httpx its own command, which needs click.
LIKED = frozenset({"numpy", "pandas", "click"})


class _Hidden(MetaPathFinder):
    """Finds no package that is only liked."""

    @staticmethod
    def find_spec(fullname: str, *_: object) -> None:
        if fullname in LIKED:
            raise ModuleNotFoundError(name=fullname)


@contextmanager
def light() -> Iterator[None]:
    """Within the block, pyarrow and httpx are imported as where nothing else is installed: in half the time.

    Their first use belongs in the block, too: pyarrow's first array looks for pandas. `to_pandas` and `to_numpy` then
    fail for good, so only a process of our own may ask for that.
    """
    sys.meta_path.insert(0, _Hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(_Hidden)


def light_process(module: str) -> list[str]:
    """Return the command that runs the `main` of a module within `light`, with no module of the current folder."""
    code = f"from {__name__} import light\nwith light(): from {module} import main; main()"
    return [sys.executable, "-P", "-c", code]
