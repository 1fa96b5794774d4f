"""The settings: defaults, each malformed one named in one line, and the key never shown."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rollbook import settings
from rollbook.errors import SettingError
from rollbook.settings import ROOT, Settings, load, misspelt

GOOD = {"ROLLBOOK_BASE_URL": "https://records.example.org/", "ROLLBOOK_API_KEY": "k3y"}


@pytest.fixture(autouse=True)
def _no_dotenv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(Settings.model_config, "env_file", tmp_path / ".env")


def setting(monkeypatch: pytest.MonkeyPatch, **more: str) -> Settings:
    for name, value in {**GOOD, **more}.items():
        monkeypatch.setenv(name, value)
    return load()


def test_two_settings_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    s = setting(monkeypatch)
    assert s.base_url == "https://records.example.org"
    assert s.api_key.get_secret_value() == "k3y"
    assert s.warehouse_path == ROOT / "warehouse"
    assert (s.zone, s.cron, s.first_date) == (ZoneInfo("UTC"), "15 2 * * *", None)
    assert (s.hold_removed_percent, s.hold_changed_percent, s.verify_most, s.walks) == (10, 75, 200, 3)
    assert s.file_mode == 0o600


def test_commands_without_a_fetch_need_no_address_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in GOOD:
        monkeypatch.delenv(name, raising=False)
    assert load(fetches=False).walks == 3
    with pytest.raises(SettingError) as refused:
        load()
    assert [line.partition(":")[0] for line in refused.value.message.split("; ")] == [
        "ROLLBOOK_BASE_URL is not set",
        "ROLLBOOK_API_KEY is not set",
    ]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("BASE_URL", "records.example.org", "must be an address such as"),
        ("BASE_URL", "ftp://records.example.org", "must be an address such as"),
        ("BASE_URL", "http://records.example.org", "must begin with https://"),
        ("BASE_URL", "https://me:pw@records.example.org", "must hold no user"),
        ("BASE_URL", "https://records.example.org/svcapi", "must end before /svcapi"),
        ("BASE_URL", "https://records.example.org/svcapi/v1/auth", "must end before /svcapi"),
        ("BASE_URL", "https://records.example.org:99999", "has an invalid host or port"),
        ("BASE_URL", "https://me:pw@[::1", "has an invalid host or port"),
        ("API_KEY", "two words", "must be the key as issued"),
        ("API_KEY", "schlüssel", "must be the key as issued"),
        ("TIMEZONE", "Mars/Olympus", "is 'Mars/Olympus', which is not a time zone"),
        ("CRON", "every night", "is 'every night', which is not a cron line"),
        ("CRON", "75 2 * * *", "which is not a cron line"),
        ("FIRST_DATE", "yesterday", "valid date"),
        ("HOLD_REMOVED_PERCENT", "-1", "greater than or equal to 0"),
        ("HOLD_CHANGED_PERCENT", "101", "less than or equal to 100"),
        ("VERIFY_MOST", "many", "valid integer"),
        ("KEEP_DAYS", "0", "greater than or equal to 1"),
        ("KEEP_DAYS", "a month", "valid integer"),
        ("PUBLISHED_MODE", "rw", "is 'rw'; write 600, 640"),
        ("PSEUDONYMOUS_MODE", "666", "is '666'; write 600, 640"),
    ],
)
def test_a_malformed_setting_is_one_line_that_names_it(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    with pytest.raises(SettingError) as caught:
        setting(monkeypatch, **{f"ROLLBOOK_{name}": value})
    assert caught.value.message.startswith(f"ROLLBOOK_{name} ")
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "127.9.8.7", "localhost", "LOCALHOST:80", "[::1]:80"])
def test_plain_http_reaches_this_machine(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    there = setting(monkeypatch, ROLLBOOK_BASE_URL=f"http://{host}", ROLLBOOK_NOTIFY=f"json://{host}/hook")
    assert there.base_url == f"http://{host}"
    assert there.notify_names == ("address 1 (json)",)


def test_quotes_around_a_value_are_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of variables that was written for a shell, read by `docker run --env-file`."""
    quoted = setting(
        monkeypatch,
        ROLLBOOK_API_KEY='"k3y"',
        ROLLBOOK_WAREHOUSE="'/data/warehouse'",
        ROLLBOOK_KEEP_DAYS='"30"',
        ROLLBOOK_REPORT_NAMES="'true'",
    )
    assert quoted.api_key.get_secret_value() == "k3y"
    assert (quoted.warehouse_path, quoted.keep_days, quoted.report_names) == (Path("/data/warehouse"), 30, True)


def test_the_scheme_is_written_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        setting(monkeypatch, ROLLBOOK_BASE_URL="Https://Records.example.org/").base_url == "https://Records.example.org"
    )


ELSEWHERE = [
    "127.records.evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "localhost.",
    "127.1",
    "0x7f.1",
    "2130706433",
    "0127.0.0.1",
    "127.0.0.1.",
    "0.0.0.0",  # noqa: S104 - nothing listens there
    "[::]",
    "[::ffff:10.0.0.1]",
    "\uff11\uff12\uff17.0.0.1",
    "127.0.0.1@evil.example",
    "127.0.0.1%2eevil.example",
    "127.0.0.1\\@evil.example",
    "evil.example\\@127.0.0.1",
    "evil.example#@127.0.0.1",
    "evil.example?@127.0.0.1",
    "127.0.0.1\t.evil.example",
]


@pytest.mark.parametrize("host", ELSEWHERE)
def test_plain_http_goes_nowhere_that_only_looks_like_this_machine(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    with pytest.raises(SettingError, match=r"^ROLLBOOK_BASE_URL must"):
        setting(monkeypatch, ROLLBOOK_BASE_URL=f"http://{host}")


# Apprise drops the dot at the end and goes to this machine.
@pytest.mark.parametrize("host", sorted({*ELSEWHERE} - {"localhost.", "127.0.0.1."}))
@pytest.mark.parametrize("address", ["json://{}/hook", "mailto://me:pw@x.example?smtp={}&from=it@school.example"])
def test_no_alert_goes_there_without_encryption_either(
    monkeypatch: pytest.MonkeyPatch, address: str, host: str
) -> None:
    with pytest.raises(SettingError, match=r"^ROLLBOOK_NOTIFY is wrong in address 1"):
        setting(monkeypatch, ROLLBOOK_NOTIFY=address.format(host))


def test_the_key_is_shown_neither_by_the_settings_nor_by_their_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    s = setting(monkeypatch, ROLLBOOK_API_KEY="hidden-value")
    assert "hidden-value" not in repr(s)
    assert "hidden-value" not in str(s.model_dump())
    with pytest.raises(SettingError) as caught:
        setting(monkeypatch, ROLLBOOK_API_KEY="hidden value")
    assert "hidden" not in caught.value.message


def test_a_dotenv_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Latin-1 in a comment, UTF-16 as PowerShell writes it, another account's file."""
    file = tmp_path / ".env"
    for text in (b"# cl\xe9\n", "ROLLBOOK_API_KEY=k3y\r\n".encode("utf-16")):
        file.write_bytes(text)
        with pytest.raises(SettingError, match=r"\.env cannot be read \(it is not text in UTF-8\): save it as UTF-8"):
            load()

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "text that may quote the file")

    with (
        monkeypatch.context() as patch,
        pytest.raises(SettingError, match=r"\.env cannot be read \(Permission denied\)"),
    ):
        patch.setattr("builtins.open", refuse)
        load()


def test_a_misspelt_setting_is_named_with_the_nearest_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    (tmp_path / ".env").write_text("rollbook_walks=2\nROLLBOOK_KEEPDAYS=9\nWALK=1\n")
    for name in ("ROLLBOOK_HOLD_REMOVE_PERCENT", "ROLLBOOK_COLOUR", "ROLLBOOK_DEBUG"):
        monkeypatch.setenv(name, "1")
    names = [
        "ROLLBOOK_COLOUR is not a setting: remove it, or see .env.example",
        "ROLLBOOK_HOLD_REMOVE_PERCENT is not a setting: did you mean ROLLBOOK_HOLD_REMOVED_PERCENT?",
        "ROLLBOOK_KEEPDAYS is not a setting: did you mean ROLLBOOK_KEEP_DAYS?",
    ]
    assert misspelt() == names
    with pytest.raises(SettingError) as caught:
        setting(monkeypatch, ROLLBOOK_API_KEY="")
    assert caught.value.message.split("; ")[1:] == names
    monkeypatch.setenv("ROLLBOOK_DEMO", "1")  # whose school is not the one of `.env`
    assert misspelt() == names[:2]
