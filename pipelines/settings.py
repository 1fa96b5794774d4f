"""Reads the environment, and `.env` at the root, into one frozen object. Nothing else reads the environment.

With a registry of institutions, an institution's own settings override its `[defaults]`, and these override the
environment. A missing or malformed setting is one line that names it (`SettingError`, exit 2).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, TypeVar
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from pipelines import institutions
from pipelines.addresses import messengers
from pipelines.errors import SettingError
from pipelines.institutions import Registry, Secret
from pipelines.setting_types import (
    DUCKDB,
    Addresses,
    ApiKey,
    BaseUrl,
    CronLine,
    EngineName,
    FileMode,
    HostNames,
    LakeUrl,
    TimeZone,
)

_CHECKOUT = Path(__file__).resolve().parent.parent
# The project's folder; if Rollbook is installed as a package, the working directory.
ROOT = _CHECKOUT if (_CHECKOUT / "pyproject.toml").is_file() else Path.cwd()
PREFIX = "ROLLBOOK_"
# Set by the demo for itself and its children: they must not read `.env`, which holds the real institution's settings.
DEMO = f"{PREFIX}DEMO"
# Names one institution of the registry; `rollbook --institution NAME` sets it for its own process and its children.
INSTITUTION = f"{PREFIX}INSTITUTION"
INSTITUTIONS = f"{PREFIX}INSTITUTIONS"
FLEET = "fleet"
API_KEY = f"{PREFIX}API_KEY"


class Details(StrEnum):
    """Which students are also fetched one by one."""

    none = "none"
    changed = "changed"
    all = "all"


class _Group(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=ROOT / ".env", env_ignore_empty=True, extra="ignore", frozen=True
    )


class WarehouseSettings(_Group):
    """Where the warehouse is, and what is kept and shown: all the settings of a command that only reads."""

    warehouse: Path = Path("warehouse")
    institution: str = ""
    institutions: Path = Path(institutions.FILE)
    keep_days: Annotated[int, Field(ge=1)] | None = None
    published_mode: FileMode = "600"
    report_names: bool = False
    access_log_days: Annotated[int, Field(ge=1)] = 365
    pseudonymous: bool = False
    pseudonymous_mode: FileMode = "600"
    lake: LakeUrl = ""
    fleet_engine: EngineName = DUCKDB

    @cached_property
    def warehouse_path(self) -> Path:
        """The warehouse folder, absolute; with a registry, the institution's subfolder of `common_path`."""
        return self.common_path / self.institution

    @cached_property
    def common_path(self) -> Path:
        """The folder of ROLLBOOK_WAREHOUSE, absolute: a single school's warehouse, or the parent of a registry's."""
        return (ROOT / self.warehouse.expanduser()).resolve()

    @cached_property
    def fleet_path(self) -> Path | None:
        """The folder that a registry's institutions share, `fleet/`; None for a single school."""
        return self.common_path / FLEET if self.institution else None

    @cached_property
    def file_mode(self) -> int:
        """The file mode of published files, as a number."""
        return int(self.published_mode, 8)

    @cached_property
    def shared_mode(self) -> int | None:
        """The file mode of the pseudonymous file, as a number; None if that file is off."""
        return int(self.pseudonymous_mode, 8) if self.pseudonymous else None


class SourceSettings(_Group):
    """The records service, and how and when it is read. An address or key that is not set is empty."""

    base_url: BaseUrl = ""
    api_key: ApiKey = SecretStr("")
    timezone: TimeZone = "UTC"
    cron: CronLine = "15 2 * * *"
    first_date: date | None = None
    verify_most: Annotated[int, Field(ge=0)] = 200
    walks: Annotated[int, Field(ge=1, le=10)] = 3
    retry_seconds: Annotated[float, Field(ge=0)] = 300
    request_pause_ms: Annotated[float, Field(ge=0)] = 0
    cache_minutes: Annotated[float, Field(ge=0)] = 5

    @cached_property
    def zone(self) -> ZoneInfo:
        """The zone whose current date labels a snapshot."""
        return ZoneInfo(self.timezone)


class GuardSettings(_Group):
    """What is held for approval (G3), and the host names that reach the UI (G12)."""

    hold_removed_percent: Annotated[float, Field(ge=0, le=100)] = 10
    hold_changed_percent: Annotated[float, Field(ge=0, le=100)] = 75
    ui_hosts: HostNames | None = None

    @cached_property
    def ui_names(self) -> list[str]:
        """The host names by which browsers reach the UI, besides this machine's own."""
        return self.ui_hosts.split(", ") if self.ui_hosts else []


class AlertSettings(_Group):
    """Where alerts about failed, held or late syncs go."""

    notify: Addresses | None = None

    @cached_property
    def notify_names(self) -> tuple[str, ...]:
        """What messages call each address, such as `address 2 (slack)`."""
        return tuple(messengers(self.notify.get_secret_value())) if self.notify else ()


class Settings(WarehouseSettings, SourceSettings, GuardSettings, AlertSettings):
    """Every setting, validated. Relative paths start at the project's root, wherever a command is run."""

    def check_source(self) -> None:
        """Raise SettingError unless the records service's address and the key are set."""
        given = {"base_url": self.base_url, "api_key": self.api_key.get_secret_value()}
        if missing := [name for name, value in given.items() if not value]:
            raise SettingError("; ".join(_not_set(name, self.institution) for name in missing))


S = TypeVar("S", bound=_Group)

# Settings that an institution of a registry may not set for itself.
_FOR_ALL = frozenset({"warehouse", "institution", "institutions", "ui_hosts", "fleet_engine"})
_SECRET = frozenset({"api_key", "notify"})
# Cached registries by path, each with its file's inode, modification time and size.
_REGISTRIES: dict[Path, tuple[tuple[int, int, int], Registry]] = {}


class _Place(_Group):
    institution: str = ""
    institutions: Path | None = None


def load(*, fetches: bool = True, institution: str | None = None, **overrides: object) -> Settings:
    """Read the settings: `overrides` (by field name), then the registry, the environment and `.env`; the first wins.

    With `fetches` false, the address and the key may be missing. `institution` is one of the registry (default:
    ROLLBOOK_INSTITUTION). Raises SettingError: one line that names what is missing or wrong and says what to write.
    """
    settings = _read(Settings, overrides, institution, secrets=fetches)
    if fetches:
        settings.check_source()
    return settings


def place(institution: str | None = None) -> WarehouseSettings:
    """Read only the warehouse's settings, ignoring errors in the others. Raises SettingError."""
    return _read(WarehouseSettings, {}, institution)


def common_path() -> Path:
    """Return the folder of ROLLBOOK_WAREHOUSE, absolute, with or without an institution. Raises SettingError."""
    return _checked(WarehouseSettings, {}).common_path


def for_all() -> WarehouseSettings:
    """Read the warehouse settings that all institutions of a registry share: the environment and `[defaults]`.

    For a single school, the same as `place`. Raises SettingError.
    """
    known = registry()
    given = known.defaults if known else {}
    values = {k: v for k, v in given.items() if k in WarehouseSettings.model_fields and not isinstance(v, Secret)}
    where = {field: f"{field} in [{institutions.DEFAULTS}] of {known.path.name}" for field in values} if known else {}
    return _checked(WarehouseSettings, values | {"institution": ""}, where)


def is_of_all() -> bool:
    """Whether this process works on all institutions: there is a registry, and none of them is selected."""
    return registry() is not None and not _checked(_Place, {}).institution


def ui_names() -> list[str]:
    """Return the host names by which browsers reach the UI, the same for all institutions. Raises SettingError."""
    return _checked(GuardSettings, {}).ui_names


def registry() -> Registry | None:
    """Return the registry of institutions; None for a single school. Raises SettingError.

    Cached until the file changes: a fleet's run reads the settings of every institution in it.
    """
    if os.environ.get(DEMO) and INSTITUTIONS not in os.environ:
        return None
    path = registry_path()
    try:
        stat = path.stat()
    except FileNotFoundError:
        if not _checked(_Place, {}).institutions:
            return None
        raise SettingError(
            f"{PREFIX}INSTITUTIONS names {path}, which is not there: correct it, or see `rollbook fleet add --help`"
        ) from None
    except OSError:
        return _read_registry(path)  # raises SettingError with the reason
    same = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    known = _REGISTRIES.get(path)
    if known is None or known[0] != same:
        known = _REGISTRIES[path] = same, _read_registry(path)
    return known[1]


def registry_path() -> Path:
    """Return the registry's path, whether the file exists or not."""
    return ROOT / (_checked(_Place, {}).institutions or Path(institutions.FILE)).expanduser()


def check_registry(path: Path, called: str, institution: str = "") -> None:
    """Validate a new registry file before it replaces the one `called` so, and an institution's settings in it.

    Raises SettingError, which uses the name `called`.
    """
    try:
        known = _read_registry(path)
    except SettingError as error:
        raise SettingError(error.message.replace(path.name, called)) from None
    if institution:
        values = {k: "" if isinstance(v, Secret) else v for k, v in known[institution].values.items()}
        where = f"in [{institution}] of {called}"
        _checked(Settings, values | {"institution": institution}, {field: f"{field} {where}" for field in values})


def _read_registry(path: Path) -> Registry:
    return institutions.read(path, frozenset(Settings.model_fields) - _FOR_ALL, _SECRET)


def key_variables() -> frozenset[str]:
    """Return the environment variables that hold any institution's key, for a child that fetches nothing to drop."""
    try:
        known = registry()
    except SettingError:  # an edit broke it after this process had read it
        known = next((read for _, read in _REGISTRIES.values()), None)
    return frozenset({API_KEY}) | (known.variables("api_key") if known else frozenset())


def keyless_environment() -> dict[str, str]:
    """The environment for a process of ours that needs no key: the same package, and no variable with a key."""
    path = os.pathsep.join(filter(None, (str(_CHECKOUT), os.environ.get("PYTHONPATH", ""))))
    keys = key_variables()
    return {k: v for k, v in os.environ.items() if k not in keys} | {"PYTHONPATH": path}


def sources(known: Registry) -> dict[str, SourceSettings]:
    """Return each institution's source settings, without its key. Institutions with invalid settings are left out."""
    found = {}
    for name, institution in known.institutions.items():
        values = {k: v for k, v in institution.values.items() if k in SourceSettings.model_fields}
        with suppress(SettingError):
            found[name] = _checked(SourceSettings, values | {"api_key": ""})
    return found


def _read(kind: type[S], overrides: dict[str, object], institution: str | None = None, *, secrets: bool = False) -> S:
    """Read a group of settings, including the registry's. The API key is read only with `secrets`."""
    known = registry()
    name = institution if institution is not None else _checked(_Place, {}).institution
    if known is None:
        if name:
            raise SettingError(
                f"There is no {institutions.FILE} at the root, so there is no institution {name!r}: leave --institution"
                f" and {INSTITUTION} out, or see `rollbook fleet add --help`"
            )
        return _checked(kind, overrides)
    if not known.institutions:
        raise SettingError(f"{known.path.name} lists no institution yet: see `rollbook fleet add --help`")
    if not name:
        raise SettingError(f"Say which institution: rollbook --institution NAME ..., one of {known.listed()}")
    values = {k: v for k, v in known[name].values.items() if k in kind.model_fields}
    where = f"in [{name}] or [{institutions.DEFAULTS}] of {known.path.name}"
    for field, value in list(values.items()):
        if isinstance(value, Secret):
            values[field] = _secret(field, value, where) if secrets or field != "api_key" else ""
    given = values | {"institution": name} | overrides
    return _checked(kind, given, {field: f"{field} {where}" for field in values})


def _secret(field: str, secret: Secret, where: str) -> str:
    try:
        return secret.read(ROOT)
    except ValueError as error:
        raise SettingError(f"{field} {where} {error}") from None


def _checked(kind: Callable[..., S], values: dict[str, object], names: Mapping[str, str] | None = None) -> S:
    try:
        return kind(**({"_env_file": None} if os.environ.get(DEMO) else {}) | values)
    except ValidationError as error:
        raise SettingError("; ".join(_message(e, names or {}) for e in error.errors())) from None


def _message(error: ErrorDetails, names: Mapping[str, str]) -> str:
    """Format one pydantic error without the invalid value, which may be the key."""
    field = str(error["loc"][0])
    name = names.get(field) or PREFIX + field.upper()
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"{name} {reason[0].lower()}{reason[1:]}"


def _not_set(field: str, institution: str) -> str:
    if institution:
        return f"{field} is not set for {institution}: put it into {institutions.FILE}, under [{institution}]"
    name = PREFIX + field.upper()
    return f"{name} is not set: put it into the environment or into .env at the root (see .env.example)"
