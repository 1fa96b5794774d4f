"""Checks where data may be sent: loopback hosts, and the Apprise addresses that alerts go to.

Apprise is a library for some 150 messaging services. Its addresses hold tokens and passwords, so messages name an
address by position and kind, such as `address 2 (slack)`, and never quote it. Apprise is imported only when there is an
address to read: the import takes 0.2 s and some 20 MB.
"""

from __future__ import annotations

import logging
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apprise import NotifyBase

# Apprise counts these as encrypted, but they send their password in plain text, at least in some networks; the last two
# read their settings from files.
UNFIT = {"aprs", "dapnet", "irc", "ircs", "kavenegar", "fcm", "vapid"}
# Options that skip certificate checks, follow redirects with the token, or read a file.
UNFIT_OPTIONS = {"verify", "redirect", "template", "keyfile", "pgp", "pgppub", "pgpprv", "wkd"}

_warnings: list[int] = []


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, the only one that may receive unencrypted data.

    True for `localhost` and for loopback addresses in their usual form. Any other name goes through DNS, so a name such
    as `127.example.org` may lead anywhere.
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def messengers(text: str) -> dict[str, NotifyBase]:
    """Return an Apprise notifier for each address of a list, keyed by the name that messages use for it.

    Raises ValueError unless every address leads to a remote service over an encrypted connection.
    """
    logging.getLogger("apprise").addFilter(_record_warning)
    from apprise.utils.parse import parse_urls

    found = parse_urls(text)
    if not found or not all("://" in address for address in found) or not text.lstrip(" ,;\t\r\n").startswith(found[0]):
        raise ValueError("must hold addresses such as slack://... or mailtos://..., with spaces or commas between")
    made = {}
    for number, address in enumerate(found, 1):
        name = f"address {number} ({address.partition('://')[0].lower()})"
        try:
            made[name] = _messenger(address)
        except ValueError as error:
            raise ValueError(f"is wrong in {name}: it {error}") from None
    return made


def _messenger(address: str) -> NotifyBase:
    import apprise
    from apprise.plugins import url_to_dict

    asset = apprise.AppriseAsset(
        app_id="Rollbook", app_desc="Rollbook", app_url="", image_url_mask="", image_url_logo="",
        http_redirects=False, interpret_emojis=False, storage_mode="memory",
    )  # fmt: skip
    try:
        parts: dict[str, Any] = url_to_dict(address) or {}
        _warnings.clear()
        made = apprise.Apprise.instantiate(parts, asset=asset)
    except Exception:  # noqa: BLE001 - any error may quote the address
        parts, made = {}, None
    unclear = not address.isprintable() or {" ", "\\"} & {*address}  # parsers disagree on these characters
    if made is None or _warnings or unclear or not 0 < (made.port or 1) < 2**16:
        raise ValueError(
            "is not usable by Apprise here; to see why, give it to `.venv/bin/apprise --dry-run -b test` (write a"
            " space as %20, a backslash as %5C)"
        )
    if unfit := sorted(UNFIT_OPTIONS & {*parts.get("qsd", ())}):
        raise ValueError(f"must do without {', '.join(f'{name}=' for name in unfit)}")
    if parts["schema"] in UNFIT or not _is_safe(made, parts["schema"]):
        raise ValueError(
            "must lead to a remote service over an encrypted connection, such as jsons:// and not json:// (to this"
            " machine's loopback, json:// will do)"
        )
    return made


def _record_warning(record: logging.LogRecord) -> bool:
    """Drop every log line of Apprise, since it may hold an address; only record that there was a warning."""
    if record.levelno >= logging.WARNING:
        _warnings.append(record.levelno)
    return False


def _is_safe(made: NotifyBase, schema: str) -> bool:
    """Whether the connection is encrypted, stays on this machine, or is mail without a password."""
    secure = made.secure_protocol
    encrypted = schema in ({secure} if isinstance(secure, str) else secure or ())
    if hasattr(made, "secure_mode"):  # for mail this decides, not the schema
        encrypted = made.secure_mode != "insecure" or not made.password
    host = str(getattr(made, "smtp_host", made.host)).strip("[]").lower()
    # Services without any encrypted variant are this machine's desktop notifications or system log.
    return encrypted or (bool(secure) and is_loopback(host))
