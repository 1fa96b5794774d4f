"""Where anything may be sent: what counts as this machine, and the addresses of the services that alerts go to.

Those are addresses of Apprise, a library that speaks to some hundred and fifty services. They hold tokens and
passwords, so messages call one by its place and its kind, such as `address 2 (slack)`, and quote nothing of it. Apprise
is imported when there is an address to read: that takes a fifth of a second and some 20 MB.
"""

from __future__ import annotations

import logging
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apprise import NotifyBase

# Apprise counts these as encrypted, but they send their password in plain text, if only in some networks; the last two
# read their settings from files.
UNFIT = {"aprs", "dapnet", "irc", "ircs", "kavenegar", "fcm", "vapid"}
# What would skip the check of a certificate, follow a redirect with a token in hand, or read a file.
UNFIT_OPTIONS = {"verify", "redirect", "template", "keyfile", "pgp", "pgppub", "pgpprv", "wkd"}

_warnings: list[int] = []


def is_loopback(host: str) -> bool:
    """Whether a host is this machine: only to it is anything sent unencrypted.

    That is `localhost`, or an address of the loopback network in its usual form. Any other name is looked up, and what
    it begins with says nothing about where it leads.
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def messengers(text: str) -> dict[str, NotifyBase]:
    """Make what sends to each address of a list, under what messages call it. Raises ValueError unless each leads to a
    remote service over an encrypted connection.
    """
    logging.getLogger("apprise").addFilter(_hear)
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
    except Exception:  # noqa: BLE001 - whatever it is, it may quote the address
        parts, made = {}, None
    unclear = not address.isprintable() or {" ", "\\"} & {*address}  # what programs read differently
    if made is None or _warnings or unclear or not 0 < (made.port or 1) < 2**16:
        raise ValueError(
            "is none that Apprise can use here; to see why, give it to `.venv/bin/apprise --dry-run -b test` (write a"
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


def _hear(record: logging.LogRecord) -> bool:
    """Let out no line of Apprise, which may hold an address; only remember that it warned."""
    if record.levelno >= logging.WARNING:
        _warnings.append(record.levelno)
    return False


def _is_safe(made: NotifyBase, schema: str) -> bool:
    """Whether all is encrypted, goes to a service on this machine, or is mail without a password."""
    secure = made.secure_protocol
    encrypted = schema in ({secure} if isinstance(secure, str) else secure or ())
    if hasattr(made, "secure_mode"):  # of mail: what counts, whatever the schema is
        encrypted = made.secure_mode != "insecure" or not made.password
    host = str(getattr(made, "smtp_host", made.host)).strip("[]").lower()
    # What has no encrypted kind at all is this machine's desktop or system log.
    return encrypted or (bool(secure) and is_loopback(host))
