"""Sends one message: to a chat service's webhook, or by mail. `alerts` decides the text and when to try again.

The webhook's address and the mail account are secrets: no log line and no error made here contains them.
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
from pipelines.source.client import silence_http_logs
from pipelines.source.deadline import Deadline, bound

TIMEOUT = 10.0  # seconds
TOO_MANY, SERVER_ERROR = 429, 500


def send_to_webhook(url: SecretStr, text: str) -> None:
    """Post {"text": ...}, as chat services expect it. Raises UndeliveredError.

    A read timeout is not an error: the message was sent completely, and sending it again could show it twice.
    """
    silence_http_logs()
    address = url.get_secret_value()
    https = address.startswith("https:")
    try:
        with httpx.Client(
            timeout=TIMEOUT,
            follow_redirects=False,
            trust_env=https,  # plain http is only allowed to this machine, which needs no proxy
            verify=True if https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            headers={"User-Agent": f"Rollbook/{__version__}"},
        ) as client:
            deadline = Deadline()
            bound(client, deadline)
            deadline.begin(TIMEOUT)
            with client.stream("POST", address, json={"text": text}) as response:  # the body is not read
                status = response.status_code
    except httpx.ReadTimeout:
        return
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        # The cause's message may contain the address.
        raise UndeliveredError(f"the webhook could not be reached ({type(error).__name__})", retryable=True) from None
    if not 200 <= status < 300:
        retryable = status == TOO_MANY or status >= SERVER_ERROR
        raise UndeliveredError(f"the webhook answered {status}: see ROLLBOOK_ALERT_WEBHOOK", retryable=retryable)


def send_mail(url: SecretStr, sender: str, to: str, subject: str, text: str) -> None:
    """Send a mail through the server and account of an smtp:// or smtps:// address. Raises UndeliveredError.

    With smtp:// the connection is encrypted if the server offers it. Over an unencrypted connection no password is
    sent, except to this machine.
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
                        retryable=False,
                    )
                server.login(user, password)
            server.send_message(mail)
    except smtplib.SMTPAuthenticationError:
        raise UndeliveredError("the mail server refused the account: see ROLLBOOK_SMTP_URL", retryable=False) from None
    except smtplib.SMTPRecipientsRefused:
        raise UndeliveredError(
            "the mail server refused the recipients: see ROLLBOOK_ALERT_TO", retryable=False
        ) from None
    except smtplib.SMTPResponseException as error:
        retryable = 400 <= error.smtp_code < 500
        raise UndeliveredError(f"the mail server answered {error.smtp_code}", retryable=retryable) from None
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise UndeliveredError(f"the mail could not be sent ({type(error).__name__})", retryable=True) from None


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
