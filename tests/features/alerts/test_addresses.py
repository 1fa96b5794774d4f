"""The addresses of ROLLBOOK_NOTIFY: which are accepted, and that others are named by their place and never quoted."""

from __future__ import annotations

import pytest

from rollbook.errors import SettingError
from rollbook.features.alerts.addresses import AlertSettings
from rollbook.settings import load

SLACK = "T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"


def settings(notify: str) -> AlertSettings:
    return AlertSettings.of(load(base_url="https://records.example.org", api_key="k3y", _env_file=None, notify=notify))


@pytest.mark.parametrize(
    ("notify", "names"),
    [
        (f"slack://{SLACK}", ["1 (slack)"]),
        (f"https://hooks.slack.com/services/{SLACK}", ["1 (https)"]),  # as Slack hands it out
        ("mailtos://me:pw@mail.example.org?to=it@school.example,head@school.example", ["1 (mailtos)"]),
        ("mailto://me:pw@gmail.com", ["1 (mailto)"]),  # Apprise knows that it is encrypted
        ("mailto://relay.school.example?from=a@school.example&to=it@school.example", ["1 (mailto)"]),  # no password
        ("tgram://123456789:abcdefg_hijklmnop/12315544, ntfys://topic\njsons://h.example.org/x",
         ["1 (tgram)", "2 (ntfys)", "3 (jsons)"]),
    ],
)  # fmt: skip
def test_remote_services_over_encrypted_connections_are_taken(notify: str, names: list[str]) -> None:
    assert settings(notify).notify_names == tuple(f"address {name}" for name in names)


NO_LIST = "must hold addresses such as slack://... or mailtos://..., with spaces or commas between"
UNUSABLE = (
    "it is not usable by Apprise here; to see why, give it to `apprise --dry-run -b test`, which is installed beside rollbook (write a space as"
    " %20, a backslash as %5C)"
)
WEBHOOK = "it must begin with jsons:// instead of {}:// for a webhook, or with json:// for one on this machine"
UNFIT = "it must do without verify= and redirect=: the message is for the service alone"
UNSAFE = (
    "it must lead to a remote service over an encrypted connection, such as jsons:// and not json:// (to this machine's"
    " loopback, json:// will do)"
)


@pytest.mark.parametrize(
    ("notify", "says"),
    [
        (" , ", NO_LIST),
        ("hidden, jsons://h.example.org", NO_LIST),
        ("hidden.example.org/x", NO_LIST),
        ("hidden ://x", NO_LIST),
        ("nothing://hidden.example.org", f"is wrong in address 1 (nothing): {UNUSABLE}"),
        ("https://hidden.example.org/hook", f"is wrong in address 1 (https): {WEBHOOK.format('https')}"),
        ("http://localhost:8080/hidden", f"is wrong in address 1 (http): {WEBHOOK.format('http')}"),
        ("jsons://h.example.org slack://hidden", f"is wrong in address 2 (slack): {UNUSABLE}"),
        ("jsons://h.example.org hidden jsons://h.example.org", f"is wrong in address 1 (jsons): {UNUSABLE}"),
        ("jsons://hidden.example.org:70000", f"is wrong in address 1 (jsons): {UNUSABLE}"),
        ("jsons://hidden\u2100value.example.org", f"is wrong in address 1 (jsons): {UNUSABLE}"),
        ("jsons://me:hidden-value@[::1", f"is wrong in address 1 (jsons): {UNUSABLE}"),
        ("mailtos://me:hidden@mail.example.org?to=it-at-school", f"is wrong in address 1 (mailtos): {UNUSABLE}"),
        ("json://hidden.example.org/x", f"is wrong in address 1 (json): {UNSAFE}"),
        ("mailto://me:hidden@mail.example.org", f"is wrong in address 1 (mailto): {UNSAFE}"),
        ("mailtos://me:hidden@mail.example.org?mode=insecure", f"is wrong in address 1 (mailtos): {UNSAFE}"),
        ("mailto://me:hidden@localhost?smtp=mail.example.org&from=a@b.example", f"is wrong in address 1 (mailto): {UNSAFE}"),
        ("syslog://", f"is wrong in address 1 (syslog): {UNSAFE}"),
        ("rsyslog://localhost", f"is wrong in address 1 (rsyslog): {UNSAFE}"),
        ("jsons://hidden.example.org?verify=no", f"is wrong in address 1 (jsons): {UNFIT}"),
        ("jsons://hidden.example.org?redirect=yes", f"is wrong in address 1 (jsons): {UNFIT}"),
    ],
)  # fmt: skip
def test_any_other_is_named_by_its_place_and_not_quoted(
    notify: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    with pytest.raises(SettingError) as caught:
        settings(notify)
    assert caught.value.message == f"ROLLBOOK_NOTIFY {says}"
    assert "hidden" not in caught.value.message + caplog.text
