"""Sends one message to services with Apprise, in a subprocess. `alerts` decides on the text and retries.

Apprise logs addresses and services' responses, and leaves threads behind that wait for a service forever. So `send`
starts this module as a process: only the result for each address is kept, and the process is killed at the deadline.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rollbook.errors import UndeliveredError
from rollbook.features.alerts.addresses import messengers
from rollbook.settings import (
    is_of_library,
    public_environment,
    secrets_in_environment,
    with_secrets_of_libraries,
)

if TYPE_CHECKING:
    from apprise import NotifyLogEntry
    from pydantic import SecretStr

# Deadline for all services together, half of it for each wait on one; and the time for the process to start.
SECONDS, START_SECONDS = 20.0, 15.0
# Apprise's log lines for an HTTP status, a mail server's status and a read timeout.
HTTP, SMTP = r"^WARNING .*\berror=(\d{3})\b", r"^DEBUG Socket Exception: .*?\((\d{3}), "
NO_ANSWER = r"^DEBUG Socket Exception: .*Read timed out"


def send(addresses: SecretStr, names: Sequence[str], subject: str, text: str) -> dict[str, UndeliveredError]:
    """Send to the named addresses of the list; returns the error of each address that was not delivered to.

    A service that took the message but never answered may have shown it, so it is not retried.
    """
    order: dict[str, Any] = {
        "addresses": addresses.get_secret_value(),
        "names": names,
        "subject": subject,
        "text": text,
    }
    with with_secrets_of_libraries():  # a proxy's password
        order["environment"] = {k: v for k, v in secrets_in_environment().items() if is_of_library(k)}
    env = {"REQUESTS_CA_BUNDLE": os.environ.get("SSL_CERT_FILE", ""), **public_environment()}  # like httpx and mail
    direct = env.get("no_proxy") or env.get("NO_PROXY", "")  # plain http goes to this machine, and through no proxy
    env |= {"no_proxy": f"{direct},localhost,127.0.0.0/8,::1", "NETRC": os.devnull}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "rollbook.features.alerts.channels"],
            input=json.dumps(order | {"seconds": SECONDS}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            timeout=SECONDS + START_SECONDS,
            check=True,
        )
        failures: dict[str, tuple[str, bool]] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        failures = dict.fromkeys(names, (f"could not be sent to ({type(error).__name__})", True))
    return {
        name: UndeliveredError(f"{name} of ROLLBOOK_NOTIFY {why}", retryable=r) for name, (why, r) in failures.items()
    }


def main() -> None:
    """Send the message read from standard input, and write the results to standard output, both as JSON."""
    import apprise

    order = json.load(sys.stdin)
    os.environ.update(order["environment"])
    chosen = {name: notifier for name, notifier in messengers(order["addresses"]).items() if name in order["names"]}
    for notifier in chosen.values():
        notifier.socket_connect_timeout = notifier.socket_read_timeout = order["seconds"] / 2
        if hasattr(notifier, "smtp_host"):
            notifier.headers["Auto-Submitted"] = "auto-generated"  # no out-of-office notes in return
    logger = logging.getLogger("apprise")
    logger.filters.clear()  # `messengers` drops every line; here the results need them, to explain a failure
    logger.setLevel(logging.DEBUG)
    results = apprise.Apprise([*chosen.values()]).notify(
        title=order["subject"],
        body=order["text"],
        body_format=apprise.NotifyFormat.TEXT,
        timeout=order["seconds"],
        log_level=logging.DEBUG,
    )
    named = zip(chosen, results, strict=True)
    failed = {name: _reason(result.logs()) for name, result in named if not any(result.attempts)}
    sys.stdout.write(json.dumps(failed))
    sys.stdout.flush()
    os._exit(0)  # a thread may still be waiting for a service


def _reason(entries: Iterable[NotifyLogEntry]) -> tuple[str, bool]:
    """The reason why a message was not delivered, without the service's own text, and whether a retry can help."""
    for line in (f"{entry.level} {entry.message}" for entry in entries):
        if match := re.search(HTTP, line):
            return f"answered {match[1]}", match[1] == "429" or match[1] >= "500"
        if match := re.search(SMTP, line):
            return f"answered {match[1]}", match[1] < "500"
        if re.search(NO_ANSWER, line):
            return "gave no answer, and may have shown it all the same", False
    return "could not be reached, or did not answer in time", True


if __name__ == "__main__":
    main()
