"""Which addresses alerts may go to: those of ROLLBOOK_NOTIFY, in the words of Apprise, a library for some 150 messaging
services.

Addresses hold tokens and passwords, so messages name an address by position and kind, as in `address 2 (slack)`, and
never quote the address. Apprise is imported only when there is an address to read: the import takes 0.2 s and some
20 MB.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, SecretStr

from rollbook.settings import Group, is_loopback, setting

if TYPE_CHECKING:
    from apprise import NotifyBase


class _Warnings(logging.Filter):
    """Drops every log line of Apprise, which may hold an address; only counts the warnings."""

    count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the line if it is a warning."""
        self.count += record.levelno >= logging.WARNING
        return False


_WARNINGS = _Warnings()


def messengers(text: str) -> dict[str, NotifyBase]:
    """Return an Apprise notifier for each address of a list, keyed by the name in messages.

    Raises ValueError unless every address leads to a remote service over an encrypted connection.
    """
    logging.getLogger("apprise").addFilter(_WARNINGS)
    from apprise.utils.parse import parse_urls

    addresses = parse_urls(text)
    if (
        not addresses
        or not all("://" in address for address in addresses)
        or not text.lstrip(" ,;\t\r\n").startswith(addresses[0])
    ):
        raise ValueError("must hold addresses such as slack://... or mailtos://..., with spaces or commas between")
    notifiers = {}
    for number, address in enumerate(addresses, 1):
        name = f"address {number} ({address.partition('://')[0].lower()})"
        try:
            notifiers[name] = _messenger(address)
        except ValueError as error:
            raise ValueError(f"is wrong in {name}: it {error}") from None
    return notifiers


def _messenger(address: str) -> NotifyBase:
    import apprise
    from apprise.plugins import url_to_dict

    asset = apprise.AppriseAsset(
        app_id="Rollbook", app_desc="Rollbook", app_url="", image_url_mask="", image_url_logo="",
        http_redirects=False, interpret_emojis=False, storage_mode="memory",
    )  # fmt: skip
    try:
        parts: dict[str, Any] = url_to_dict(address) or {}
        before = _WARNINGS.count
        notifier = apprise.Apprise.instantiate(parts, asset=asset)
    except Exception:  # noqa: BLE001 - any error may quote the address
        parts, notifier, before = {}, None, 0
    unclear = not address.isprintable() or {" ", "\\"} & {*address}  # parsers disagree on such characters
    if notifier is None and (scheme := address.partition("://")[0].lower()) in ("http", "https"):
        raise ValueError(
            f"must begin with jsons:// instead of {scheme}:// for a webhook, or with json:// for one on this machine"
        )
    if notifier is None or _WARNINGS.count > before or unclear or not 0 < (notifier.port or 1) < 2**16:
        raise ValueError(
            "is not usable by Apprise here; to see why, give it to `apprise --dry-run -b test`, which is"
            " installed beside rollbook (write a space as %20, a backslash as %5C)"
        )
    if notifier.redirects or not notifier.verify_certificate:
        raise ValueError("must do without verify= and redirect=: the message is for the service alone")
    if not _is_safe(notifier, parts["schema"]):
        raise ValueError(
            "must lead to a remote service over an encrypted connection, such as jsons:// and not json:// (to this"
            " machine's loopback, json:// will do)"
        )
    return notifier


def _is_safe(notifier: NotifyBase, schema: str) -> bool:
    """Whether the connection is encrypted, as Apprise says, stays on this machine, or is mail without a password."""
    secure = notifier.secure_protocol
    encrypted = schema in ({secure} if isinstance(secure, str) else secure or ())
    if hasattr(notifier, "secure_mode"):  # for mail the mode decides, not the schema
        encrypted = notifier.secure_mode != "insecure" or not notifier.password
    host = str(getattr(notifier, "smtp_host", notifier.host)).strip("[]").lower()
    # Services without any encrypted variant are this machine's desktop notifications or system log.
    return encrypted or (bool(secure) and is_loopback(host))


def _vetted(value: SecretStr | None) -> SecretStr | None:
    if value is not None:
        messengers(value.get_secret_value())
    return value


class AlertSettings(Group):
    """Where alerts go."""

    notify: Annotated[SecretStr | None, AfterValidator(_vetted)] = setting(
        None,
        "the file with the addresses for alerts about failed, held and late syncs, and sets that stay unproven: as"
        " [Apprise](https://appriseit.com/services/) writes them, with commas between, such as"
        " `mailtos://user:password@mail.example.org?to=it@school.example`, or `jsons://host/path` for a webhook (on"
        " this machine also `json://localhost:8080/path`). They hold passwords; `ROLLBOOK_NOTIFY` with the addresses"
        " themselves works, too. `rollbook notify` tries them",
        example=".notify",
    )

    @cached_property
    def notify_names(self) -> tuple[str, ...]:
        """The name of each address in messages, as in `address 2 (slack)`."""
        return tuple(messengers(self.notify.get_secret_value())) if self.notify else ()
