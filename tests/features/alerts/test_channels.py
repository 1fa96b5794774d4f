"""One message to real services and mail servers: what they get, what is said of one that did not, and how long it takes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from rollbook.features.alerts import channels
from rollbook.features.alerts.addresses import messengers
from tests.support.tiers import daily, slow
from tests.support.wire.drips import sending
from tests.support.wire.listeners import ACCOUNT, Mailbox, Webhook, mailbox

pytestmark = pytest.mark.nights

OUT_OF_REACH = "could not be reached, or did not answer in time"


@pytest.fixture
def box() -> Iterator[Mailbox]:
    with mailbox() as listener:
        yield listener


def mail(
    box: Mailbox, kind: str = "mailto", host: str = "127.0.0.1", password: str = ACCOUNT[1], more: str = ""
) -> str:
    """The address of a mail server with its account, and of two people."""
    user, secret = (text.translate({64: "%40", 47: "%2F", 58: "%3A"}) for text in (ACCOUNT[0], password))
    people = "from=rollbook@school.example&to=it@school.example,head@school.example"
    return f"{kind}://{user}:{secret}@{host}:{box.port}?{people}{more}"


def send(*addresses: str) -> dict[str, tuple[str, bool]]:
    """Send to all of them; what is said of each that did not get it, and whether it is tried again."""
    text = " ".join(addresses)
    failed = channels.send(
        SecretStr(text), list(messengers(text)), "The sync <b>failed</b>", "Run `rollbook sync` :-)\nNow."
    )
    assert all(error.message.startswith(f"{name} of ROLLBOOK_NOTIFY ") for name, error in failed.items())
    return {
        name: (error.message.partition(" of ROLLBOOK_NOTIFY ")[2], error.retryable) for name, error in failed.items()
    }


def test_every_address_gets_the_message_as_plain_text(hook: Webhook, box: Mailbox) -> None:
    assert send(hook.url, mail(box), "json://127.0.0.1:9/x") == {"address 3 (json)": (OUT_OF_REACH, True)}
    assert [(posted["title"], posted["message"]) for posted in hook.posted] == [
        ("The sync <b>failed</b>", "Run `rollbook sync` :-)\nNow.")
    ]
    assert box.envelopes == [
        ("rollbook@school.example", ["it@school.example"]),
        ("rollbook@school.example", ["head@school.example"]),
    ]
    first = box.mails[0]
    assert (first["Subject"], first["From"]) == ("The sync <b>failed</b>", "rollbook@school.example")
    assert (first.get_content_type(), first["Auto-Submitted"]) == ("text/plain", "auto-generated")
    assert first.get_content().replace("\r\n", "\n") == "Run `rollbook sync` :-)\nNow.\n"


@pytest.mark.parametrize(
    ("status", "retried"),
    [slow(400, False), (404, False), slow(410, False), slow(302, False), (429, True), slow(500, True)],
)
def test_a_refusal_is_final_and_a_fault_is_not(hook: Webhook, status: int, retried: bool) -> None:
    hook.statuses = [status]
    assert send(hook.url) == {"address 1 (json)": (f"answered {status}", retried)}
    assert [r["path"] for r in hook.requests] == ["/hooks/T0KEN"]  # no redirect was followed


@pytest.mark.parametrize(("says", "retried"), [("451 later", True), slow("554 never", False)])
def test_a_mail_that_is_refused_for_now_is_tried_again(box: Mailbox, says: str, retried: bool) -> None:
    box.refuse = says
    assert send(mail(box)) == {"address 1 (mailto)": (f"answered {says[:3]}", retried)}


def test_a_server_that_offers_no_encryption_gets_no_password(box: Mailbox) -> None:
    assert send(mail(box, kind="mailtos")) == {"address 1 (mailtos)": (OUT_OF_REACH, True)}
    assert box.mails == []


def test_an_answer_that_does_not_come_makes_no_second_message(hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "SECONDS", 1)
    hook.delay = 0.8
    assert send(hook.url) == {"address 1 (json)": ("gave no answer, and may have shown it all the same", False)}
    assert len(hook.requests) == 1


DRIPS = {"headers": (b"HTTP/1.1 200 Said\r\n", b"x: y\r\n"), "a body": (b"HTTP/1.1 200 Said\r\n\r\n", b"y")}


@pytest.mark.parametrize("what", daily(DRIPS, "a body"))
def test_endless_answers_are_given_up(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Each byte comes well within the read timeout, and nothing is left waiting: the process is gone."""
    monkeypatch.setattr(channels, "SECONDS", 1)
    first, piece = DRIPS[what]
    with sending(lambda: itertools.chain([first], itertools.repeat(piece)), every=0.05) as service:
        began = time.monotonic()
        assert send(service.url.replace("http:", "json:")) == {"address 1 (json)": (OUT_OF_REACH, True)}
        assert 0.9 < time.monotonic() - began < channels.SECONDS + channels.START_SECONDS


def test_neither_a_proxy_nor_a_password_of_the_account_comes_in_between(
    hook: Webhook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password hidden\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert send(hook.url) == {}
    assert "authorization" not in hook.requests[0]
