"""Sending one message: to a chat service's webhook, or by mail. What is said, and how often, is decided in `alerts`.

The webhook's address and the mail account are secrets: no log line and no error made here holds them.
"""

from __future__ import annotations

import smtplib
import ssl
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from urllib.parse import unquote, urlsplit

import httpx
from pydantic import SecretStr

from pipelines import __version__
from pipelines.errors import UndeliveredError
from pipelines.settings import is_loopback
from pipelines.source.client import silence
from pipelines.source.deadline import Deadline, bound

# Seconds. Nothing waits for an alert but the alerts after it, and those wait for at most a few of these.
TIMEOUT = 10.0
TOO_MANY, SERVER_ERROR = 429, 500


def to_webhook(url: SecretStr, text: str) -> None:
    """Post a text as chat services take it, {"text": ...}. Raises UndeliveredError.

    An answer that does not come in time is no failure: the message went out whole, and posting it again could show it
    twice.
    """
    silence()
    address = url.get_secret_value()
    https = address.startswith("https:")
    try:
        with httpx.Client(
            timeout=TIMEOUT,
            follow_redirects=False,
            trust_env=https,  # a plain http address is this machine's own, and goes through no proxy
            verify=True if https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            headers={"User-Agent": f"Rollbook/{__version__}"},
        ) as client:
            deadline = Deadline()
            bound(client, deadline)
            deadline.begin(TIMEOUT)
            with client.stream("POST", address, json={"text": text}) as response:  # its body is not even read
                status = response.status_code
    except httpx.ReadTimeout:
        return
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        # The cause's own words may name the address.
        raise UndeliveredError(f"the webhook could not be reached ({type(error).__name__})", again=True) from None
    if not 200 <= status < 300:
        again = status == TOO_MANY or status >= SERVER_ERROR
        raise UndeliveredError(f"the webhook answered {status}: see ROLLBOOK_ALERT_WEBHOOK", again=again)


def by_mail(url: SecretStr, sender: str, to: str, subject: str, text: str) -> None:
    """Send a mail by the server and account of an smtp:// or smtps:// address. Raises UndeliveredError.

    With smtp:// the connection is encrypted as soon as the server offers it; without that, no password is sent except
    to this machine.
    """
    parts = urlsplit(url.get_secret_value())
    host = parts.hostname or ""
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = subject, sender, to
    mail["Date"], mail["Message-ID"] = formatdate(), make_msgid(domain="rollbook.invalid")
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(text)
    try:
        with _server(parts.scheme, host, parts.port) as server:
            if user:
                if not (is_loopback(host) or isinstance(server.sock, ssl.SSLSocket)):
                    raise UndeliveredError(
                        "the mail server offers no encryption, so the password was not sent: use smtps:// in"
                        " ROLLBOOK_SMTP_URL, or another server",
                        again=False,
                    )
                server.login(user, password)
            server.send_message(mail)
    except smtplib.SMTPAuthenticationError:
        raise UndeliveredError("the mail server refused the account: see ROLLBOOK_SMTP_URL", again=False) from None
    except smtplib.SMTPRecipientsRefused:
        raise UndeliveredError("the mail server refused the recipients: see ROLLBOOK_ALERT_TO", again=False) from None
    except smtplib.SMTPResponseException as error:
        again = 400 <= error.smtp_code < 500
        raise UndeliveredError(f"the mail server answered {error.smtp_code}", again=again) from None
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise UndeliveredError(f"the mail could not be sent ({type(error).__name__})", again=True) from None


def _server(scheme: str, host: str, port: int | None) -> smtplib.SMTP:
    if scheme == "smtps":
        return smtplib.SMTP_SSL(host, port or 465, timeout=TIMEOUT, context=ssl.create_default_context())
    server = smtplib.SMTP(host, port or 587, timeout=TIMEOUT)
    try:
        server.ehlo()
        if server.has_extn("starttls"):
            server.starttls(context=ssl.create_default_context())
            server.ehlo()
    except BaseException:
        with suppress(OSError):
            server.close()
        raise
    return server
