"""Sends one message to services, by Apprise, in a process of its own. `alerts` decides the text and when to try again.

Apprise logs addresses and what services answer, and leaves behind threads that wait for a service without end. So
`send` starts this module as a process: nothing that it says is kept but what came of each address, and at the deadline
it is ended.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pipelines.addresses import messengers
from pipelines.errors import UndeliveredError
from pipelines.settings import key_variables

if TYPE_CHECKING:
    from apprise import NotifyLogEntry
    from pydantic import SecretStr

# For all services at once, half of it for each wait on one; and for the process to start.
SECONDS, START_SECONDS = 20.0, 15.0
# What Apprise notes of an HTTP answer, of a mail server's, and of one that did not come.
HTTP, SMTP = r"^WARNING .*\berror=(\d{3})\b", r"^DEBUG Socket Exception: .*?\((\d{3}), "
NO_ANSWER = r"^DEBUG Socket Exception: .*Read timed out"


def send(addresses: SecretStr, names: Sequence[str], subject: str, text: str) -> dict[str, UndeliveredError]:
    """Send to those addresses of the list that have these names. Returns why not, for each that did not get it.

    A service that took the message and gave no answer counts as one that may have shown it: no retry.
    """
    order = {"addresses": addresses.get_secret_value(), "names": names, "subject": subject, "text": text}
    env = {"REQUESTS_CA_BUNDLE": os.environ.get("SSL_CERT_FILE", ""), **os.environ}  # as httpx and mail take it
    for name in key_variables():  # it needs no key of the records service
        env.pop(name, None)
    direct = env.get("no_proxy") or env.get("NO_PROXY", "")  # plain http goes to this machine, and through no proxy
    env |= {"no_proxy": f"{direct},localhost,127.0.0.0/8,::1", "NETRC": os.devnull}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pipelines.notify.channels"],
            input=json.dumps(order | {"seconds": SECONDS}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            timeout=SECONDS + START_SECONDS,
            check=True,
        )
        said: dict[str, tuple[str, bool]] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = dict.fromkeys(names, (f"could not be sent to ({type(error).__name__})", True))
    return {name: UndeliveredError(f"{name} of ROLLBOOK_NOTIFY {why}", retryable=r) for name, (why, r) in said.items()}


def main() -> None:
    """Send what standard input says, and write what came of it to standard output."""
    import apprise

    order = json.load(sys.stdin)
    chosen = {name: made for name, made in messengers(order["addresses"]).items() if name in order["names"]}
    for made in chosen.values():
        made.socket_connect_timeout = made.socket_read_timeout = order["seconds"] / 2
        if hasattr(made, "smtp_host"):
            made.headers["Auto-Submitted"] = "auto-generated"  # no out-of-office notes in return
    logger = logging.getLogger("apprise")
    logger.filters.clear()  # `addresses` lets no line out; here the results keep them, to tell why one failed
    logger.setLevel(logging.DEBUG)
    results = apprise.Apprise([*chosen.values()]).notify(
        title=order["subject"],
        body=order["text"],
        body_format=apprise.NotifyFormat.TEXT,
        timeout=order["seconds"],
        log_level=logging.DEBUG,
    )
    came = zip(chosen, results, strict=True)
    failed = {name: _reason(result.logs()) for name, result in came if not any(result.attempts)}
    sys.stdout.write(json.dumps(failed))
    sys.stdout.flush()
    os._exit(0)  # a thread may still be waiting for a service


def _reason(entries: Iterable[NotifyLogEntry]) -> tuple[str, bool]:
    """Why a message was not delivered, in words of our own, and whether a retry can help."""
    for line in (f"{entry.level} {entry.message}" for entry in entries):
        if found := re.search(HTTP, line):
            return f"answered {found[1]}", found[1] == "429" or found[1] >= "500"
        if found := re.search(SMTP, line):
            return f"answered {found[1]}", found[1] < "500"
        if re.search(NO_ANSWER, line):
            return "gave no answer, and may have shown it all the same", False
    return "could not be reached, or did not answer in time", True


if __name__ == "__main__":
    main()
