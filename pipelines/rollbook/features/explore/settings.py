"""Who signs in to `rollbook explore --listen`, and what they see without a line in `readers.csv`."""

from __future__ import annotations

import re
from functools import cached_property
from ipaddress import ip_address
from typing import Annotated

from pydantic import AfterValidator

from rollbook.settings import Group, setting

_HEADER = re.compile(r"[A-Za-z0-9-]+")
# Each request has them, or a person's own program can send them.
_TAKEN = {"host", "authorization", "cookie", "origin", "user-agent", "referer", "accept", "connection"}


def _header(value: str) -> str:
    name = value.strip()
    if name and (not _HEADER.fullmatch(name) or name.lower() in _TAKEN):
        raise ValueError("must be the name of a header that the proxy alone sets, such as Remote-User")
    return name


def _addresses(value: str) -> str:
    try:
        return ", ".join(str(ip_address(part.strip())) for part in value.split(",")) if value.strip() else ""
    except ValueError:
        raise ValueError("must be an address such as 127.0.0.1, or several with commas between") from None


class ExploreSettings(Group):
    """The sign-in of `rollbook explore --listen`."""

    login_header: Annotated[str, AfterValidator(_header)] = setting(
        "",
        "the header in which the proxy says who signed in; the proxy must remove one that a browser sent",
        example="Remote-User",
    )
    login_proxies: Annotated[str, AfterValidator(_addresses)] = setting(
        "",
        "the addresses from which that header is believed, if the token comes with it; not needed with a Unix socket",
        example="127.0.0.1",
    )
    teachers_see_theirs: bool = setting(
        False,
        "whether somebody who signs in with a teacher's email sees that teacher's own classes, without a line in"
        " `readers.csv`",
        example="true",
    )

    @cached_property
    def proxies(self) -> frozenset[str]:
        """The addresses of the proxies."""
        return frozenset(self.login_proxies.split(", ")) if self.login_proxies else frozenset()
