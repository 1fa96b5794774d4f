"""Where alerts go: a chat service's webhook and a mail server on loopback, which keep every message."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

ACCOUNT = ("alerts@school.example", "pa:ss/w@rd")


@dataclass
class Webhook:
    """The address, in Apprise's form; what was posted, as parsed JSON; and what to answer."""

    url: str = ""
    posted: list[Any] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    delay: float = 0.0
    says: bytes = b""

    @property
    def texts(self) -> list[str]:
        """The titles and texts that were accepted."""
        return [f"{p['title']}\n{p['message']}" for p in self.posted]

    @property
    def heads(self) -> list[str]:
        """The titles alone."""
        return [p["title"] for p in self.posted]


@contextmanager
def webhook() -> Iterator[Webhook]:
    """A chat service: answers 200, or the next of `statuses`, after `delay` seconds."""
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            hook.requests.append({"path": self.path, **{k.lower(): v for k, v in self.headers.items()}})
            status = hook.statuses.pop(0) if hook.statuses else 200
            if status == 200 and body:
                hook.posted.append(json.loads(body))
            time.sleep(hook.delay)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(hook.says)))
            self.end_headers()
            self.wfile.write(hook.says)

        do_GET = do_POST  # noqa: N815 - what a redirect would be followed by

        def log_message(self, *args: Any) -> None:
            pass

    with listening(Handler) as port:
        hook.url = f"json://127.0.0.1:{port}/hooks/T0KEN"
        yield hook


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A web server on a free port of loopback; yields the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@dataclass
class Mailbox:
    """The mails that came, with senders and recipients."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    envelopes: list[tuple[str, list[str]]] = field(default_factory=list)
    refuse: str = ""

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        """Take a mail, or refuse it with `refuse`."""
        if self.refuse:
            return self.refuse
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.envelopes.append((envelope.mail_from, envelope.rcpt_tos))
        return "250 OK"


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    """A mail server that wants a login, and offers no encryption."""
    box = Mailbox()

    def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        given = isinstance(data, LoginPassword) and (data.login.decode(), data.password.decode()) == ACCOUNT
        return AuthResult(success=given, handled=given)

    controller = _FreePort(
        box,
        hostname="127.0.0.1",
        port=0,
        authenticator=authenticate,
        auth_required=True,
        auth_require_tls=False,
    )
    controller.start()
    box.port = controller.port
    try:
        yield box
    finally:
        controller.stop()


class _FreePort(Controller):
    """On any free port: aiosmtpd's own controller would connect to the given port, which is 0."""

    def _trigger_server(self) -> None:
        assert isinstance(self.server, asyncio.Server)
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()  # type: ignore[no-untyped-call]  # aiosmtpd leaves it untyped
