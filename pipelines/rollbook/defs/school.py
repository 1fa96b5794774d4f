"""The school, or the district, that a code location serves: the resource of its runs, its settings and its names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from rollbook import settings
from rollbook.institutions import Registry
from rollbook.settings import Settings


class RollbookResource(dg.ConfigurableResource):  # type: ignore[type-arg] # the value is the resource itself
    """A warehouse. A launch can name another folder, but neither the records service's address nor the key."""

    folder: str = Field(description="The warehouse's folder, with rollbook.duckdb to read; or a district's.")


@dataclass(frozen=True)
class School:
    """Where the settings come from, and what stands in front of every name in Dagster.

    A component's school has a name, settings that were `given` and a file that holds the key. Rollbook's own code
    location has none of them: there the environment says everything, and a registry may list many institutions.
    """

    name: str = ""
    given: Mapping[str, object] = field(default_factory=dict)
    key_file: Path | None = None

    def key(self, *path: str) -> dg.AssetKey:
        """An asset's key."""
        return dg.AssetKey([*filter(None, [self.name]), *path])

    def named(self, name: str) -> str:
        """The name of a job, a sensor, a schedule or the resource."""
        return f"{self.name}_{name}" if self.name else name

    def registry(self) -> Registry | None:
        """The registry of a district; None for a single school. Raises SettingError."""
        return None if self.given else settings.registry()

    def settings(self, folder: str | None = None) -> Settings:
        """The settings as they are now, of the warehouse in a folder. Raises SettingError."""
        own: dict[str, Any] = {**self.given, **({"warehouse": folder} if folder else {})}
        if self.key_file is not None:
            # Without the key everything loads all the same, and a night says that it is not set.
            own["api_key"] = self.key_file.read_text("utf-8-sig").strip() if self.key_file.is_file() else ""
        return settings.load(fetches=False, **own)

    def warehouses(self) -> list[Path]:
        """The folders of all warehouses: the school's, or those of the district's institutions. Raises SettingError."""
        if (registry := self.registry()) is not None:
            return [settings.common_path() / name for name in registry.institutions]
        return [Path(self.folder())]

    def folder(self) -> str:
        """The warehouse's folder. Raises SettingError."""
        return str(self.given.get("warehouse") or settings.common_path())
