"""The settings of the copy in an object store."""

from __future__ import annotations

import os
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from rollbook.settings import Group, is_loopback, setting

# The environment variables by which object stores' own tools name an endpoint.
_ENDPOINTS = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"),
    *("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "GOOGLE_BASE_URL"),
)


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


LakeUrl = Annotated[str, AfterValidator(_lake)]


class MirrorSettings(Group):
    """The copy in an object store."""

    lake: LakeUrl = setting(
        "",
        "an object store's folder that gets a copy of all that the warehouse is rebuilt from (or `file:///mnt/elsewhere`;"
        " either needs the extra `mirror`: `pip install 'rollbook[mirror]'`); the credentials are the store's"
        " own variables (`AWS_ACCESS_KEY_ID` and so on), in the environment; `AWS_SECRET_ACCESS_KEY_FILE` names the"
        " secret's file",
        example="s3://bucket/rollbook",
    )
    mirror_proof_minutes: Annotated[float, Field(ge=0)] = setting(
        0,
        "once a week, after a sync, the copy is restored to a temporary folder and compared with what readers have,"
        " for at most this long (looked at between files and days); 0: never",
        example="30",
        unit="minutes",
    )
