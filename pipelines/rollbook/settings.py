"""Reads the environment, and `.env` at the root, into one frozen object. Nothing else reads the environment.

With a registry of institutions, an institution's own settings override its `[defaults]`, and these override the
environment. A missing or malformed setting is one line that names the setting (`SettingError`, exit 2). What a setting
may hold is checked here, too: each message is worded to follow the setting's name, and quotes no value, which may be a
secret in the wrong place.

Secrets belong in files: `<NAME>_FILE` names the file of a secret setting, of a variable that the registry names, of an
object store's credentials and of a proxy with a password. Every process can show its environment to others: Dagster
does, to all who may launch a run.

A feature's settings are declared with the feature, which lies above this module: `feature_groups` asks for them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from difflib import get_close_matches
from functools import cache, cached_property
from inspect import get_annotations
from ipaddress import ip_address
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Self, TypeVar, cast, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from dotenv import dotenv_values
from pydantic import AfterValidator, Field, SecretStr, ValidationError, create_model, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from rollbook import institutions, tables
from rollbook.errors import ArgumentError, SettingError
from rollbook.institutions import Registry, Secret
from rollbook.util import cron

PREFIX = "ROLLBOOK_"
# Set by `serve` for its children, which start in another folder.
IN_ROOT = f"{PREFIX}ROOT"
# Set by `serve` for its children: its process. A run ends when that has been killed.
SERVED_BY = f"{PREFIX}SERVED_BY"
_CHECKOUT = Path(__file__).resolve().parent.parent.parent
# The project's folder; if Rollbook is installed as a package, the working directory.
ROOT = Path(os.environ.get(IN_ROOT) or (_CHECKOUT if (_CHECKOUT / "pyproject.toml").is_file() else Path.cwd()))
# In ROOT: what the environment does not set.
DOTENV = ".env"
# Set by the demo for its own process and children: a demo must not read `.env`, which holds the real institution's
# settings.
DEMO = f"{PREFIX}DEMO"
# Only in the environment: makes commands show the traceback of an unexpected error.
DEBUG = f"{PREFIX}DEBUG"
# Names one institution of the registry; `rollbook --institution NAME` sets the variable for its own process and
# children.
INSTITUTION = f"{PREFIX}INSTITUTION"
INSTITUTIONS = f"{PREFIX}INSTITUTIONS"
DISTRICT = "district"
API_KEY = f"{PREFIX}API_KEY"
# Set for a command that executes itself again: the number of the open file that holds what its environment held.
HANDED = f"{PREFIX}HANDED"

log = logging.getLogger(__name__)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, which alone may receive unencrypted data.

    True for `localhost` and for loopback addresses in their usual form. Any other name goes through DNS, so
    `127.example.org` may lead anywhere.
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _base_url(value: str) -> str:
    url = value.strip().rstrip("/")
    if not url:
        return ""
    if not url.isprintable() or "\\" in url or " " in url:
        raise ValueError("must hold no spaces, control characters or backslashes: programs disagree on what they mean")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is the check: a port out of range raises here
    except ValueError:  # the message may quote the address, with a password
        raise ValueError("has an invalid host or port") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address such as https://records.example.org")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, password, query or fragment; the key goes into ROLLBOOK_API_KEY")
    if "svcapi" in parts.path.split("/"):
        raise ValueError("must end before /svcapi: Rollbook adds the path itself")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("must begin with https:// (plain http would show the key to the network)")
    return f"{parts.scheme}{url[len(parts.scheme) :]}"  # a tablet writes Https://


def _api_key(value: SecretStr) -> SecretStr:
    if not value.get_secret_value():
        return value
    key = value.get_secret_value().strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("must be the key as issued: printable ASCII, without spaces or line breaks")
    return SecretStr(key)


def _timezone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):
        raise ValueError("is not a time zone: write one such as Europe/Berlin") from None
    return value


def _cron(value: str) -> str:
    try:
        cron.check(value)
    except ValueError:
        raise ValueError("is not a cron line: write one such as 15 2 * * *") from None
    return value.strip()


def _mode(value: str) -> str:
    if value.strip().removeprefix("0") not in ("600", "640", "604", "644"):
        raise ValueError("must be 600, 640 (a group reads, too) or 644 (everybody does): others never write")
    return value.strip()


def _hosts(value: str) -> str:
    names = [name.strip().lower() for name in value.split(",")]
    for name in names:
        parts = urlsplit(f"//{name}")
        try:
            parts.port  # noqa: B018 - as above
        except ValueError:
            raise ValueError("holds a name whose port is invalid") from None
        if not parts.hostname or parts.netloc != name or "@" in name or not name.isascii() or " " in name:
            raise ValueError("must be a host's name such as rollbook.example.org, or several with commas between")
    return ", ".join(names)


def _columns(value: str) -> str:
    return ", ".join(sorted(f"{table}.{column}" for table, column in tables.column_pairs(value)))


BaseUrl = Annotated[str, AfterValidator(_base_url)]
ApiKey = Annotated[SecretStr, AfterValidator(_api_key)]
TimeZone = Annotated[str, AfterValidator(_timezone)]
CronLine = Annotated[str, AfterValidator(_cron)]
FileMode = Annotated[str, AfterValidator(_mode)]
HostNames = Annotated[str, AfterValidator(_hosts)]
ColumnNames = Annotated[str, AfterValidator(_columns)]


class _Files(PydanticBaseSettingsSource):
    """Reads each secret setting from the file that `<NAME>_FILE` names, among the variables of another source."""

    def __init__(self, kind: type[BaseSettings], source: EnvSettingsSource) -> None:
        super().__init__(kind)
        self.variables = source.env_vars

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        """The secret of a setting, if there is one. Raises SettingError."""
        return _in_file(f"{PREFIX}{field_name}".upper(), self.variables, str.lower), field_name, False

    def __call__(self) -> dict[str, Any]:
        """The secrets by setting. Raises SettingError."""
        fields = self.settings_cls.model_fields.items()
        wanted = {k: v for k, v in fields if is_secret(v) and k not in self.current_state}
        read = {name: self.get_field_value(field, name)[0] for name, field in wanted.items()}
        return {name: value for name, value in read.items() if value}


def _in_file(name: str, variables: Mapping[str, str | None], called: Callable[[str], str] = str) -> str:
    """The secret in the file that the variable `<name>_FILE` names; empty without it. Raises SettingError."""
    try:
        return institutions.secret_in_file(name, variables, ROOT, called)
    except ValueError as error:
        raise SettingError(f"{name} {error}") from None


def setting(
    default: object, description: str, *, example: str, unit: str = "", unset: str = "none", for_all: bool = False
) -> Any:
    """A field of a group, with all that the documents say of it (`make docs`).

    A secret's example is the name of its file. `unset` says what holds without a value; `for_all`, that the
    institutions of a registry cannot have values of their own.
    """
    return Field(
        default,
        description=description,
        json_schema_extra={"example": example, "unit": unit, "unset": unset, "for_all": for_all},
    )


def about(field: FieldInfo) -> dict[str, Any]:
    """What `setting` says of a field besides its description: example, unit, unset, for_all."""
    return cast("dict[str, Any]", field.json_schema_extra)


def is_secret(field: FieldInfo) -> bool:
    """Whether a setting holds a secret, by its type. A secret belongs in a file that `<NAME>_FILE` names."""
    return SecretStr in (field.annotation, *get_args(field.annotation))


class Group(BaseSettings):
    """Settings that belong together. The first line of a group's docstring is its title in the documents."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the settings that were read, as seen by the feature whose group it is."""
        if not isinstance(settings, cls):
            raise TypeError(f"{cls.__name__} is of no feature that is there, or `load` did not read the settings")
        return settings

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - of another layout: a folder of secrets
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment beats `.env`, whether either holds a secret or names its file."""
        both = [source for source in (env_settings, dotenv_settings) if isinstance(source, EnvSettingsSource)]
        return (init_settings, *(each for source in both for each in (_Files(settings_cls, source), source)))

    @field_validator("*", mode="before")
    @classmethod
    def _without_quotes(cls, value: object) -> object:
        """The value without quotes around it, which `docker run --env-file` keeps."""
        if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] in "\"'":
            return value[1:-1]
        return value


class SourceSettings(Group):
    """The records service, and how and when Rollbook reads.

    An address or a key that is not set is empty.
    """

    base_url: BaseUrl = setting(
        "",
        "the service's base address, without `/svcapi`; https, or http to this machine alone",
        example="https://records.example.org",
        unset="(required)",
    )
    api_key: ApiKey = setting(
        SecretStr(""),
        "the file that holds the institution's key as issued, and nothing else; only its owner should be able to read"
        " it: `chmod 600 .api-key`. The key goes to that address alone. In the environment or in `.env`"
        " (`ROLLBOOK_API_KEY`) it works, too, but `dagster dev` would show it to anybody who launches a run",
        example=".api-key",
        unset="(required)",
    )
    timezone: TimeZone = setting(
        "UTC",
        "the zone that decides which day it is, and in which the schedule runs; moved west, a sync is refused until the"
        " newest landed day has come there",
        example="Europe/Berlin",
    )
    cron: CronLine = setting(
        "15 2 * * *", "when the nightly sync starts, in that zone: a line as for cron", example="30 1 * * *"
    )
    first_date: date | None = setting(
        None,
        "the first day that can be synced: the first daily partition",
        example="2026-11-20",
        unset="the first landed day",
    )
    walks: Annotated[int, Field(ge=1, le=10)] = setting(
        3, "how often a set is read at most, until it is proven complete", example="5", unit="times"
    )
    verify_most: Annotated[int, Field(ge=0)] = setting(
        200,
        "up to this many vanished records are searched for by name before they count as removed; with more, the sync is"
        " held; what is left of them goes to records that only held or discarded syncs state",
        example="500",
        unit="records",
    )
    retry_seconds: Annotated[float, Field(ge=0)] = setting(
        300,
        "how long one request may be retried; a service that is down for an hour at night needs `7200`, or another"
        " `ROLLBOOK_CRON`",
        example="7200",
        unit="seconds",
    )
    request_pause_ms: Annotated[float, Field(ge=0)] = setting(
        0, "the least pause between two requests", example="200", unit="milliseconds"
    )
    cache_minutes: Annotated[float, Field(ge=0)] = setting(
        5,
        "a sync by hand within this time of a complete one only checks the key and uses what that fetched (unless with"
        " `--fresh`); 0 always fetches",
        example="0",
        unit="minutes",
    )

    @cached_property
    def zone(self) -> ZoneInfo:
        """The zone whose current date labels a snapshot."""
        return ZoneInfo(self.timezone)


class ReaderSettings(Group):
    """Who reads the published files, and what is kept about that."""

    published_mode: FileMode = setting(
        "600",
        "the file mode of what readers open: `640` lets a group read, `644` everybody. Nobody but the superuser may"
        " write to a published database, not even its owner (it has mode 400, 440 or 444): a tool that forgets to open"
        " it read-only is refused, instead of locking all others out",
        example="640",
    )
    access_log_days: Annotated[int, Field(ge=1)] = setting(
        365,
        "how many days the log of who read pupils' records is kept (and a month more at most)",
        example="90",
        unit="days",
    )

    @cached_property
    def file_mode(self) -> int:
        """The file mode of published files, as a number."""
        return int(self.published_mode, 8)


class WarehouseSettings(ReaderSettings):
    """Where the warehouse is, and what is kept.

    With the group of its base, these are all the settings of a command that only reads.
    """

    warehouse: Path = setting(
        Path("warehouse"), "the folder where everything is kept", example="/srv/rollbook", for_all=True
    )
    institutions: Path = setting(
        Path(institutions.FILE),
        "the registry of many institutions, each with settings of its own, if that file exists",
        example="/etc/rollbook/institutions.toml",
        for_all=True,
    )
    institution: str = setting(
        "",
        "the institution of the registry that a command is about, the same as `--institution`",
        example="linden-vale",
        for_all=True,
    )
    keep_days: Annotated[int, Field(ge=1)] | None = setting(
        None,
        "how many days of raw bodies, snapshots, refused records and values are kept, back from the newest; history is"
        " never expired",
        example="730",
        unit="days",
        unset="all",
    )
    untracked: ColumnNames = setting(
        "",
        "columns that make no versions, besides the declared ones; a column that a view or macro reads from history is"
        " refused; the history is computed again after a change, and a change is refused where days have expired",
        example="classes.class_room, classes.teacher_email",
        for_all=True,
    )

    def command(self, arguments: str) -> str:
        """A command about this warehouse, as somebody types it: `rollbook --institution ash sync`."""
        return f"rollbook --institution {self.institution} {arguments}" if self.institution else f"rollbook {arguments}"

    def name_of(self, field: str) -> str:
        """A setting that each institution has for itself: `ROLLBOOK_API_KEY`, or its line in the registry."""
        return f"{field} of {self.institution} in {institutions.FILE}" if self.institution else PREFIX + field.upper()

    @cached_property
    def declared(self) -> tables.Declared:
        """The declarations, with the columns that make no versions here."""
        return tables.leaving_untracked(self.untracked)

    @cached_property
    def warehouse_path(self) -> Path:
        """The warehouse folder, absolute; with a registry, the institution's subfolder of `common_path`."""
        return self.common_path / self.institution

    @cached_property
    def common_path(self) -> Path:
        """The folder of ROLLBOOK_WAREHOUSE, absolute: a single school's warehouse, or the parent of a registry's."""
        return (ROOT / self.warehouse.expanduser()).resolve()

    @cached_property
    def district_path(self) -> Path | None:
        """The folder that a registry's institutions share, `district/`; None for a single school."""
        return self.common_path / DISTRICT if self.institution else None


class HoldSettings(Group):
    """What is held until somebody approves it.

    The limits of G3.
    """

    hold_removed_percent: Annotated[float, Field(ge=0, le=100)] = setting(
        10,
        "a sync that would remove more of a table's rows (and more than five) is held",
        example="20",
        unit="percent",
    )
    hold_changed_percent: Annotated[float, Field(ge=0, le=100)] = setting(
        75,
        "a sync that would change more of a table's rows in names, titles, teachers, statuses or rosters is held;"
        " minutes, counts, rates and activity dates move every school day and hold nothing",
        example="90",
        unit="percent",
    )


class UiSettings(Group):
    """Who reaches the UI."""

    ui_hosts: HostNames | None = setting(
        None,
        "other host names by which browsers reach the UI, such as a proxy's (which must pass on the `Host` header),"
        " with commas between",
        example="rollbook.school.example",
        for_all=True,
    )

    @cached_property
    def ui_names(self) -> list[str]:
        """The host names by which browsers reach the UI, besides the names of this machine."""
        return self.ui_hosts.split(", ") if self.ui_hosts else []


class Settings(SourceSettings, WarehouseSettings, HoldSettings, UiSettings):
    """Every setting, validated; a feature's are seen by its group's `of`. Relative paths start at the project's root,
    wherever a command is run.
    """

    def check_source(self) -> None:
        """Raise SettingError unless the records service's address and the key are set."""
        given = {"base_url": self.base_url, "api_key": self.api_key.get_secret_value()}
        if missing := [name for name, value in given.items() if not value]:
            raise SettingError("; ".join((*_not_set(missing, self.institution), *misspelt())))

    def check_words(self, words: str) -> None:
        """Raise ArgumentError if a person's words, which are kept and shown, hold a secret, or one of several in it."""
        secrets = [value.get_secret_value() for _, value in self if isinstance(value, SecretStr)]
        pieces = [piece for secret in secrets for piece in secret.split(",") if len(piece) >= _LONG]
        check_words(words, (*secrets, *pieces))

    def warn_of_misspelt(self) -> None:
        """Log a warning for each variable that looks like a setting and is none; a district does so once for all."""
        for says in () if self.institution else misspelt():
            log.warning("%s", says)

    def others(self, *, unlisted: bool) -> list[str]:
        """The other institutions of the registry; with `unlisted` also the folders beside that the registry does not
        name. Empty for a single school.
        """
        registered = registry() if self.institution else None
        beside = [raw.parent.name for raw in self.common_path.glob("*/raw")] if registered else []
        return [
            n for n in beside if n != self.institution and (unlisted or (registered and n in registered.institutions))
        ]


S = TypeVar("S", bound=Group)

# The least length of a secret; names of variables that hold one, and of those that only say where it is; an address
# with a password.
_LONG = 8
_IS_SECRET = re.compile(r"(KEY|SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|PASS|CREDENTIAL|APPRISE_URL)S?(_|$)")
_IS_PLACE = re.compile(r"_(FILE|PATH|DIR|ID|URI|URL)$")
_HAS_PASSWORD = re.compile(r"://[^/?#@\s]*:[^/?#@\s]+@")
# The other variables that Rollbook's libraries read secrets from: object stores' credentials, proxies' passwords.
_OF_LIBRARIES = re.compile(r"((AWS|AZURE|GOOGLE)_\w+|(HTTP|HTTPS|ALL)_PROXY)")
# Of these, the libraries read the file themselves.
_THEIR_OWN = frozenset(
    {"AWS_CONFIG", "AWS_SHARED_CREDENTIALS", "AWS_WEB_IDENTITY_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN"}
    | {"AZURE_FEDERATED_TOKEN"}
)
# Where a school's records are, and the key.
_TOGETHER = ("base_url", "api_key")
# Cached registries by path, each with the file's inode, modification time and size.
_REGISTRIES: dict[Path, tuple[tuple[int, int, int], Registry]] = {}


class _Place(Group):
    institution: str = ""
    institutions: Path | None = None


def feature_groups() -> list[type[Group]]:
    """Return the groups of settings that features declare."""
    # By name: features lie above.
    return list(resolve_name("rollbook.feature:settings_groups")())


@cache
def every_setting() -> type[Settings]:
    """Return Settings with the groups of all features. An object of this class is what `load` returns."""
    bases: tuple[type[Any], ...] = (Settings, *feature_groups())
    return create_model("Settings", __base__=bases)


def load(*, fetches: bool = True, institution: str | None = None, **overrides: object) -> Settings:
    """Read the settings: `overrides` (by field name), then the registry, the environment and `.env`; the first wins.

    With `fetches` false, the address and the key may be missing. `institution` is a name in the registry (default:
    ROLLBOOK_INSTITUTION). Raises SettingError: a line that names what is missing or wrong and says what to write.
    """
    settings = _read(every_setting(), overrides, institution, secrets=fetches)
    if fetches:
        settings.check_source()
    return settings


def restored(values: dict[str, object]) -> Settings:
    """Return settings that another process wrote down: nothing is read from `.env`, a registry or this environment
    that the values have.
    """
    return _checked(every_setting(), {"_env_file": None} | values)


def place(institution: str | None = None) -> WarehouseSettings:
    """Read only the warehouse's settings, ignoring errors in other settings. Raises SettingError."""
    return _read(WarehouseSettings, {}, institution)


def common_path() -> Path:
    """Return the folder of ROLLBOOK_WAREHOUSE, absolute, with or without an institution. Raises SettingError."""
    return _checked(WarehouseSettings, {}).common_path


def for_all() -> WarehouseSettings:
    """Read the warehouse settings that all institutions of a registry share. For a single school, the same as `place`.
    Raises SettingError.
    """
    return shared_by_all(WarehouseSettings)


def shared_by_all(kind: type[S]) -> S:
    """Read the settings of a group that all institutions of a registry share: the environment and `[defaults]`. Raises
    SettingError.
    """
    registered = registry()
    given = registered.defaults if registered else {}
    values = {k: v for k, v in given.items() if k in kind.model_fields and not isinstance(v, Secret)}
    where = (
        {field: f"{field} in [{institutions.DEFAULTS}] of {registered.path.name}" for field in values}
        if registered
        else {}
    )
    return _checked(kind, values | {"institution": ""}, where)


def is_of_all() -> bool:
    """Whether this process works on all institutions: there is a registry, and none of them is selected."""
    return registry() is not None and not _checked(_Place, {}).institution


def ui_names() -> list[str]:
    """Return the host names by which browsers reach the UI, the same for all institutions. Raises SettingError."""
    return _checked(UiSettings, {}).ui_names


def check_words(words: str, secrets: Iterable[str] = ()) -> None:
    """Raise ArgumentError if a person's words hold a secret of these or of the environment."""
    named = [value for value in secrets_in_environment().values() if len(value) >= _LONG]
    if any(secret.strip() in words for secret in (*secrets, *named) if secret.strip()):
        raise ArgumentError("The reason holds a key or a password, and others will read it: leave that out")


def groups() -> list[type[Group]]:
    """Return the groups that settings are made of, in the order of the documents."""
    return [kind for kind in every_setting().__mro__ if issubclass(kind, Group) and own_fields(kind)]


def own_fields(group: type[Group]) -> dict[str, FieldInfo]:
    """The settings that a group has of its own, by name: without those of the groups in it."""
    return {name: field for name, field in group.model_fields.items() if name in get_annotations(group)}


def secret_fields() -> frozenset[str]:
    """Return the names of the settings that hold secrets."""
    return frozenset(name for name, field in every_setting().model_fields.items() if is_secret(field))


def misspelt() -> list[str]:
    """Return a sentence for each variable `ROLLBOOK_...`, in the environment or `.env`, that is not a setting.

    It suggests the nearest setting. A variable that the registry names, for a key, may be called so. Raises
    SettingError for an invalid registry.
    """
    fields, named = [name.upper() for name in every_setting().model_fields], registry()
    variables = named.variables() if named else frozenset[str]()
    others = {DEMO, DEBUG, IN_ROOT, SERVED_BY} | variables | {f"{name}_FILE" for name in variables}
    names = [*fields, *(f"{name.upper()}_FILE" for name in secret_fields())]
    given = {*os.environ, *({} if os.environ.get(DEMO) else dotenv_values(ROOT / DOTENV))} - others
    warnings = []
    for variable in sorted(v for v in given if v.upper().startswith(PREFIX)):
        if (name := variable.upper().removeprefix(PREFIX)) not in names:
            near = get_close_matches(name, names, n=1)
            says = f"did you mean {PREFIX}{near[0]}?" if near else "remove it"
            warnings.append(f"{variable} is not a setting: {says}")
    return warnings


def registry() -> Registry | None:
    """Return the registry of institutions; None for a single school. Raises SettingError.

    Cached until the file changes: a district's run reads the settings of every institution.
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
            f"{PREFIX}INSTITUTIONS names {path}, which is not there: correct it, or see `rollbook district add --help`"
        ) from None
    except OSError:
        return _read_registry(path)  # raises SettingError with the reason
    same = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    cached = _REGISTRIES.get(path)
    if cached is None or cached[0] != same:
        cached = _REGISTRIES[path] = same, _read_registry(path)
    return cached[1]


def registry_path() -> Path:
    """Return the registry's path, whether the file exists or not."""
    return ROOT / (_checked(_Place, {}).institutions or Path(institutions.FILE)).expanduser()


def check_registry(path: Path, called: str, institution: str = "") -> None:
    """Validate a new registry file before the file `called` so is replaced, and an institution's settings in the new
    file.

    Raises SettingError, which uses the name `called`.
    """
    try:
        registered = _read_registry(path)
    except SettingError as error:
        raise SettingError(error.message.replace(path.name, called)) from None
    if institution:
        values = {k: "" if isinstance(v, Secret) else v for k, v in registered[institution].values.items()}
        where = f"in [{institution}] of {called}"
        _checked(
            every_setting(), values | {"institution": institution}, {field: f"{field} {where}" for field in values}
        )


def _read_registry(path: Path) -> Registry:
    own = frozenset(name for name, field in every_setting().model_fields.items() if not about(field)["for_all"])
    return institutions.read(path, own, secret_fields())


def secrets_in_environment() -> dict[str, str]:
    """Return the variables of this process's environment that hold a secret: Rollbook's own, and any that look so."""
    ours = _secret_variables()
    return {name: value for name, value in os.environ.items() if value and (name in ours or _is_secret(name, value))}


def _secret_variables() -> frozenset[str]:
    """The variables of the secret settings and of the registry's secrets."""
    try:
        registered = registry()
    except SettingError:  # an edit broke the registry after this process had read the file
        registered = next((read for _, read in _REGISTRIES.values()), None)
    own = frozenset(f"{PREFIX}{name}".upper() for name in secret_fields())
    return own | (registered.variables() if registered else frozenset())


def _is_secret(name: str, value: str) -> bool:
    looks_so = _IS_SECRET.search(name.upper()) and not _IS_PLACE.search(name.upper()) and not Path(value).exists()
    return bool(looks_so or _HAS_PASSWORD.search(value))


def is_of_library(name: str) -> bool:
    """Whether a library that Rollbook uses reads this variable: a proxy, or an object store's."""
    return _OF_LIBRARIES.fullmatch(name.upper()) is not None


def is_read_here(name: str) -> bool:
    """Whether Rollbook or a library that it uses reads this secret, and so also the file that `<name>_FILE` names."""
    return name in _secret_variables() or is_of_library(name)


def secret_files() -> list[Path]:
    """Return the files that hold secrets of this school or district, as far as they are named: `.env` counts as one."""
    registered, dotenv = registry(), ROOT / DOTENV
    given = {**dotenv_values(dotenv), **os.environ}
    named = [given.get(f"{name}_FILE") for name in sorted(_secret_variables())]
    held = (
        [i.values.get(field) for i in registered.institutions.values() for field in secret_fields()]
        if registered
        else []
    )
    paths = [*filter(None, named), *(each.file for each in held if isinstance(each, Secret) and each.file)]
    return [dotenv, *dict.fromkeys(ROOT / Path(path.strip("\"'")).expanduser() for path in paths)]


def public_environment() -> dict[str, str]:
    """Return this process's environment without the secrets, for a child."""
    secrets = secrets_in_environment()
    return {name: value for name, value in os.environ.items() if name not in secrets}


@contextmanager
def with_secrets_of_libraries() -> Iterator[None]:
    """Have a proxy's password and an object store's credentials in this process's environment while a library reads
    them from there. The files that hold them are named by `<NAME>_FILE`. Raises SettingError.
    """
    named = [name.removesuffix("_FILE") for name in os.environ if name.endswith("_FILE")]
    wanted = [name for name in named if is_of_library(name) and name not in _THEIR_OWN]
    read = {name: _in_file(name, os.environ) for name in wanted}
    os.environ.update(read)
    try:
        yield
    finally:
        for name in read:
            del os.environ[name]


def sources(registered: Registry) -> dict[str, SourceSettings]:
    """Return each institution's source settings, without the key. Institutions with invalid settings are left out."""
    loaded = {}
    for name, institution in registered.institutions.items():
        values = {k: v for k, v in institution.values.items() if k in SourceSettings.model_fields}
        with suppress(SettingError):
            loaded[name] = _checked(SourceSettings, values | {"api_key": ""})
    return loaded


def _read(kind: type[S], overrides: dict[str, object], institution: str | None = None, *, secrets: bool = False) -> S:
    """Read a group of settings, including the registry's. The API key is read only with `secrets`."""
    registered = registry()
    name = institution if institution is not None else _checked(_Place, {}).institution
    if registered is None:
        if name:
            raise SettingError(
                f"There is no {institutions.FILE} at the root, so no institution can be named: leave --institution and"
                f" {INSTITUTION} out, or see `rollbook district add --help`"
            )
        return _checked(kind, overrides)
    if not registered.institutions:
        raise SettingError(f"{registered.path.name} lists no institution yet: see `rollbook district add --help`")
    if not name:
        raise SettingError(f"Say which institution: rollbook --institution NAME ..., one of {registered.listed()}")
    values = {k: v for k, v in registered[name].values.items() if k in kind.model_fields}
    if secrets:
        registered[name].check_together(*_TOGETHER)
    # Nor does either of them come from the environment: the key might be sent to another school's service.
    values = {field: "" for field in _TOGETHER if field in kind.model_fields} | values
    where = f"in [{name}] or [{institutions.DEFAULTS}] of {registered.path.name}"
    for field, value in list(values.items()):
        if isinstance(value, Secret):
            values[field] = _secret(field, value, where) if secrets or field != "api_key" else ""
    return _checked(kind, values | {"institution": name} | overrides, {field: f"{field} {where}" for field in values})


def _secret(field: str, secret: Secret, where: str) -> str:
    try:
        return secret.read(ROOT)
    except ValueError as error:
        raise SettingError(f"{field} {where} {error}") from None


def _checked(kind: Callable[..., S], values: dict[str, object], names: Mapping[str, str] | None = None) -> S:
    try:
        settings = kind(**({"_env_file": None if os.environ.get(DEMO) else ROOT / DOTENV} | values))
    except ValidationError as error:
        raise SettingError("; ".join(_message(e, names or {}) for e in error.errors())) from None
    except UnicodeDecodeError:
        raise SettingError(f"{ROOT / DOTENV} cannot be read (it is not text in UTF-8): save it as UTF-8") from None
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise SettingError(f"{ROOT / DOTENV} cannot be read ({reason}): let this account read it") from None
    if isinstance(settings, WarehouseSettings) and (wrong := {"?", "\\"} & {*str(settings.common_path)}) != set():
        raise SettingError(
            f"{PREFIX}WAREHOUSE leads below a folder with {wrong.pop()} in its name, where DuckDB cannot open a"
            f" database ({settings.common_path}): name another folder"
        )
    return settings


def _message(error: ErrorDetails, names: Mapping[str, str]) -> str:
    """Format one pydantic error without the invalid value, which may be the key."""
    field = str(error["loc"][0])
    name = names.get(field) or PREFIX + field.upper()
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"{name} {reason[0].lower()}{reason[1:]}"


def _not_set(fields: list[str], institution: str) -> Iterator[str]:
    if fields == [*_TOGETHER] and not institution and not (ROOT / DOTENV).exists():
        names = " and ".join(PREFIX + field.upper() for field in fields)
        yield f"{names} are not set: run `rollbook init`, which asks for both"
        return
    for field in fields:
        name = PREFIX + field.upper()
        if institution:
            yield f"{field} is not set for {institution}: put it into {institutions.FILE}, under [{institution}]"
        elif field in secret_fields():
            says = f"put the key into a file, and the file's path into {name}_FILE, in .env or in the environment"
            yield f"{name} is not set: {says}"
        else:
            yield f"{name} is not set: put it into .env at the root, or into the environment"
