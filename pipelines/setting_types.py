"""Pydantic types for the text of each setting. An error's message is worded to follow the setting's name."""

from __future__ import annotations

import os
from typing import Annotated
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, SecretStr

from pipelines import cron
from pipelines.addresses import is_loopback, messengers

# Engines named without an address.
DUCKDB, SAIL = "duckdb", "sail"


def _base_url(value: str) -> str:
    url = value.strip().rstrip("/")
    if not url:
        return ""
    if not url.isprintable() or "\\" in url or " " in url:
        raise ValueError("must hold no spaces, control characters or backslashes: programs disagree on what they mean")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is the check: a port out of range raises here
    except ValueError:  # its message may quote the address, with a password
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


# The environment variables by which object stores' own tools name an endpoint.
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")


def engine_name(value: str) -> str:
    """Return the name or address of an engine that computes over many institutions. Raises ValueError."""
    name = value.strip()
    if name not in (DUCKDB, SAIL) and not (name.isprintable() and _is_spark_connect(name)):
        raise ValueError("must be duckdb, sail, or the address of a Spark Connect server, sc://host:port")
    return name


def _is_spark_connect(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme == "sc" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        return False


def _lake(value: str) -> str:
    url = value.strip().rstrip("/")
    if not url:
        return ""
    parts = urlsplit(url)
    if parts.scheme not in ("s3", "gs", "az", "abfss", "file") or not (parts.netloc or parts.scheme == "file"):
        raise ValueError("must be an object store's folder, such as s3://bucket/prefix, or file:///mnt/elsewhere")
    if not url.isprintable() or " " in url or parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, key, query or spaces; credentials go into the store's own variables")
    for name in _ENDPOINTS:
        endpoint = urlsplit(os.environ.get(name, ""))
        if endpoint.scheme == "http" and not is_loopback(endpoint.hostname or ""):
            raise ValueError(f"is reached by {name}, which must begin with https:// (plain http shows pupils' records)")
    return url


BaseUrl = Annotated[str, AfterValidator(_base_url)]
ApiKey = Annotated[SecretStr, AfterValidator(_api_key)]
TimeZone = Annotated[str, AfterValidator(_timezone)]
CronLine = Annotated[str, AfterValidator(_cron)]
Addresses = Annotated[SecretStr, AfterValidator(_notify)]
FileMode = Annotated[str, AfterValidator(_mode)]
HostNames = Annotated[str, AfterValidator(_hosts)]
LakeUrl = Annotated[str, AfterValidator(_lake)]
EngineName = Annotated[str, AfterValidator(engine_name)]
