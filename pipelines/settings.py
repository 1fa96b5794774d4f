"""The environment, and `.env` at the root, read once into one frozen object. Nothing else reads the environment.

A missing or malformed setting is one line that names it (`SettingError`, exit 2).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from pipelines import cron
from pipelines.addresses import is_loopback, messengers
from pipelines.errors import SettingError

_CHECKOUT = Path(__file__).resolve().parent.parent
# The project's folder; where Rollbook is installed as a package, the folder it is run in.
ROOT = _CHECKOUT if (_CHECKOUT / "pyproject.toml").is_file() else Path.cwd()
PREFIX = "ROLLBOOK_"
# Set by the demo for itself and its children: `.env` is the institution's, and its alerts and addresses are not read.
DEMO = f"{PREFIX}DEMO"
Details = Literal["none", "changed", "all"]


def _base_url(value: str) -> str:
    url = value.strip().rstrip("/")
    if not url:
        return ""
    if not url.isprintable() or "\\" in url or " " in url:
        raise ValueError("must hold no spaces, control characters or backslashes, which programs read differently")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is the check: a port out of range raises here
    except ValueError:  # it may quote the address, and that a password
        raise ValueError("has an invalid host or port") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address such as https://records.example.org")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, password, query or fragment; the key goes into ROLLBOOK_API_KEY")
    if parts.path.endswith(("/svcapi", "/svcapi/v1")):
        raise ValueError("must end before /svcapi: Rollbook adds the path itself")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("must begin with https:// (plain http would show the key to the network)")
    return url


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
        raise ValueError(f"is {value!r}, which is not a time zone; write one such as Europe/Berlin") from None
    return value


def _cron(value: str) -> str:
    try:
        cron.check(value)
    except ValueError:
        raise ValueError(f"is {value!r}, which is not a cron line; write one such as 15 2 * * *") from None
    return value.strip()


def _notify(value: SecretStr) -> SecretStr:
    messengers(value.get_secret_value())
    return value


def _replaced(_: SecretStr) -> SecretStr:
    raise ValueError(
        "is not read any more: write ROLLBOOK_NOTIFY instead, such as"
        " mailtos://user:password@mail.example.org?to=it@school.example (see README.md)"
    )


def _mode(value: str) -> str:
    if len(value.strip()) not in (3, 4) or not set(value.strip()) <= set("01234567"):
        raise ValueError(f"is {value!r}, which is not a file mode; write one such as 640")
    return value.strip()


def _hosts(value: str) -> str:
    names = [name.strip().lower() for name in value.split(",")]
    for name in names:
        parts = urlsplit(f"//{name}")
        try:
            parts.port  # noqa: B018 - as above
        except ValueError:
            raise ValueError(f"holds {name!r}, whose port is invalid") from None
        if not parts.hostname or parts.netloc != name or "@" in name or not name.isascii() or " " in name:
            raise ValueError("must be a host's name such as rollbook.example.org, or several with commas between")
    return ", ".join(names)


class _Group(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=ROOT / ".env", env_ignore_empty=True, extra="ignore", frozen=True
    )


class WarehouseSettings(_Group):
    """Where the warehouse is, and what is kept and shown: all that a command needs which only reads what is there."""

    warehouse: Path = Path("warehouse")
    keep_days: Annotated[int, Field(ge=1)] | None = None
    published_mode: Annotated[str, AfterValidator(_mode)] = "600"
    report_names: bool = False
    access_log_days: Annotated[int, Field(ge=1)] = 365
    pseudonymous: bool = False
    pseudonymous_mode: Annotated[str, AfterValidator(_mode)] = "600"
    suppress_below: Annotated[int, Field(ge=3)] = 10

    @cached_property
    def warehouse_path(self) -> Path:
        """The warehouse folder, absolute."""
        return (ROOT / self.warehouse.expanduser()).resolve()

    @cached_property
    def file_mode(self) -> int:
        """The mode of what is published, as a number."""
        return int(self.published_mode, 8)

    @cached_property
    def shared_mode(self) -> int | None:
        """The mode of the pseudonymous file, as a number; None when none is made."""
        return int(self.pseudonymous_mode, 8) if self.pseudonymous else None


class SourceSettings(_Group):
    """The records service, how it is asked, and when. Without an address or a key, both are empty."""

    base_url: Annotated[str, AfterValidator(_base_url)] = ""
    api_key: Annotated[SecretStr, AfterValidator(_api_key)] = SecretStr("")
    timezone: Annotated[str, AfterValidator(_timezone)] = "UTC"
    cron: Annotated[str, AfterValidator(_cron)] = "15 2 * * *"
    first_date: date | None = None
    verify_most: Annotated[int, Field(ge=0)] = 200
    walks: Annotated[int, Field(ge=1, le=10)] = 3
    retry_seconds: Annotated[float, Field(ge=0)] = 300
    request_pause_ms: Annotated[float, Field(ge=0)] = 0
    cache_minutes: Annotated[float, Field(ge=0)] = 5

    @cached_property
    def zone(self) -> ZoneInfo:
        """The zone in which a snapshot's date is today's date."""
        return ZoneInfo(self.timezone)


class GuardSettings(_Group):
    """What is held for a person (G3), and who may command the UI (G12)."""

    hold_removed_percent: Annotated[float, Field(ge=0, le=100)] = 10
    hold_changed_percent: Annotated[float, Field(ge=0, le=100)] = 75
    ui_hosts: Annotated[str, AfterValidator(_hosts)] | None = None

    @cached_property
    def ui_names(self) -> list[str]:
        """The names by which browsers reach the UI, besides this machine's own."""
        return self.ui_hosts.split(", ") if self.ui_hosts else []


class AlertSettings(_Group):
    """Who hears of a failed, held or late sync."""

    notify: Annotated[SecretStr, AfterValidator(_notify)] | None = None

    @cached_property
    def notify_names(self) -> tuple[str, ...]:
        """What messages call each address, such as `address 2 (slack)`."""
        return tuple(messengers(self.notify.get_secret_value())) if self.notify else ()


Replaced = Annotated[SecretStr, AfterValidator(_replaced)] | None


class _ReplacedSettings(_Group):
    """What ROLLBOOK_NOTIFY took the place of: who still sets one would get no alert, and is told so."""

    alert_webhook: Replaced = None
    smtp_url: Replaced = None
    alert_to: Replaced = None
    alert_from: Replaced = None


class Settings(WarehouseSettings, SourceSettings, GuardSettings, AlertSettings):
    """Every setting, checked. Relative paths are taken from the project's root, wherever a command is run."""

    def check_source(self) -> None:
        """Raise SettingError unless the records service's address and the key are set."""
        given = {"base_url": self.base_url, "api_key": self.api_key.get_secret_value()}
        if missing := [_not_set(name) for name, value in given.items() if not value]:
            raise SettingError("; ".join(missing))


S = TypeVar("S", bound=_Group)


def load(*, fetches: bool = True, **overrides: object) -> Settings:
    """Read the settings; `overrides` (by field name) beat the environment, which beats `.env`.

    What `fetches` nothing needs no address and no key. Raises SettingError: one line that names what is missing or
    wrong and says what to write.
    """
    _read(_ReplacedSettings, {})
    settings = _read(Settings, overrides)
    if fetches:
        settings.check_source()
    return settings


def place() -> WarehouseSettings:
    """Where the warehouse is, whatever the other settings. Raises SettingError."""
    return _read(WarehouseSettings, {})


def _read(kind: Callable[..., S], overrides: dict[str, object]) -> S:
    try:
        return kind(**({"_env_file": None} if os.environ.get(DEMO) else {}) | overrides)
    except ValidationError as error:
        raise SettingError("; ".join(_message(e) for e in error.errors())) from None


def _message(error: ErrorDetails) -> str:
    """Word one pydantic error without the value it was given, which may be the key."""
    name = PREFIX + str(error["loc"][0]).upper()
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"{name} {reason[0].lower()}{reason[1:]}"


def _not_set(field: str) -> str:
    name = PREFIX + field.upper()
    return f"{name} is not set: put it into the environment or into .env at the root (see .env.example)"
