"""The settings of the file without names."""

from __future__ import annotations

from functools import cached_property

from rollbook.settings import FileMode, Group, setting


class PseudonymousSettings(Group):
    """The file without names."""

    pseudonymous: bool = setting(
        False,
        "whether each publish also makes `rollbook-pseudonymous.duckdb`, without names and with codes for students",
        example="true",
    )
    pseudonymous_mode: FileMode = setting(
        "600",
        "the file mode of the file without names: `640` lets its group read it, `644` everybody on this machine, and no"
        " other file",
        example="640",
    )

    @cached_property
    def shared_mode(self) -> int | None:
        """The file mode of the pseudonymous file, as a number; None if that file is off."""
        return int(self.pseudonymous_mode, 8) if self.pseudonymous else None
