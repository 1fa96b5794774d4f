"""The settings of the morning page."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from rollbook.settings import Group, is_loopback, setting


def _address(value: str) -> str:
    url = value.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is the check: a port out of range raises here
    except ValueError:
        raise ValueError("has an invalid host or port") from None
    whole = f"{parts.scheme}://{parts.netloc}"
    if url and (url != whole or not parts.hostname or "@" in url or not url.isascii() or not url.isprintable()):
        raise ValueError("must be an address such as https://rollbook.example.org, which ends after the host")
    if url and parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise ValueError("must begin with https:// (plain http would show names to the network)")
    return whole.lower() if url else ""


class MorningSettings(Group):
    """The morning page."""

    report_names: bool = setting(
        False,
        "whether the file `report.html` names the students to watch; by default it only counts them, as the page in the"
        " UI always does",
        example="true",
    )
    explore_url: Annotated[str, AfterValidator(_address)] = setting(
        "",
        "the address at which people open `rollbook explore`, behind the school's sign-in: the morning page leads"
        " there, and with `--listen` it answers under this name alone",
        example="https://rollbook.school.example",
    )
