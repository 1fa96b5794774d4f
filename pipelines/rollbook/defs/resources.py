"""The school, or the district, that a code location serves: the resource of its runs, its settings and its names."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from rollbook import settings
from rollbook.assembly import assemble
from rollbook.errors import SettingError
from rollbook.institutions import Registry
from rollbook.opened import Rollbook
from rollbook.settings import Settings, SourceSettings
from rollbook.tables import DECLARED, Declared

RESOURCE = "rollbook"


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
            # Everything loads without the key too, and a night says that it is not set.
            own["api_key"] = self.key_file.read_text("utf-8-sig").strip() if self.key_file.is_file() else ""
        return settings.load(fetches=False, **own)

    def opened(self, resources: object = None) -> Rollbook:
        """A single school's warehouse: in the folder that a run's resource names, if given. Raises SettingError."""
        resource: RollbookResource | None = getattr(resources, self.named(RESOURCE)) if resources else None
        return assemble(self.settings(resource.folder if resource else None))

    def sources(self) -> dict[str, SourceSettings]:
        """When each institution is synced, by name; a single school's name is empty.

        Empty while a single school's settings are invalid. Raises SettingError for a broken registry.
        """
        if (registry := self.registry()) is not None:
            return settings.sources(registry)
        with suppress(SettingError):  # the UI loads even then, and `rollbook doctor` says what is wrong
            return {"": self.settings()}
        return {}

    def declared(self) -> Declared:
        """The declarations; without what ROLLBOOK_UNTRACKED names while settings are invalid."""
        with suppress(SettingError):
            return (self.settings() if self.registry() is None else settings.for_all()).declared
        return DECLARED

    def warehouses(self) -> list[Path]:
        """The folders of all warehouses: the school's, or those of the district's institutions. Raises SettingError."""
        if (registry := self.registry()) is not None:
            return [settings.common_path() / name for name in registry.institutions]
        return [Path(self.folder())]

    def folder(self) -> str:
        """The warehouse's folder. Raises SettingError."""
        return str(self.given.get("warehouse") or settings.common_path())


def resources(school: School) -> dict[str, Any]:
    """Return the resources of a code location.

    The launchpad of Rollbook's own UI offers no folder, and a launch can name none: neither a warehouse, nor one in
    which Dagster's own resource would store what the steps return, which is nothing.
    """
    resource = RollbookResource(folder=school.folder())
    if school.given:
        return {school.named(RESOURCE): resource}
    fixed = dg.ResourceDefinition(lambda _: resource, config_schema={}, description=RollbookResource.__doc__)
    return {RESOURCE: fixed, "io_manager": dg.mem_io_manager}
