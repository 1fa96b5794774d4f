"""The settings: defaults, each malformed one named in one line, and the key never shown."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rollbook import settings
from rollbook.errors import SettingError
from rollbook.features.alerts.addresses import AlertSettings
from rollbook.features.morning.settings import MorningSettings
from rollbook.settings import ROOT, Settings, about, every_setting, is_secret, load, misspelt
from tests import settings_documents

GOOD = {"ROLLBOOK_BASE_URL": "https://records.example.org/", "ROLLBOOK_API_KEY": "k3y"}


@pytest.fixture(autouse=True)
def _no_dotenv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(settings, "DOTENV", str(tmp_path / ".env"))


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


def test_commands_without_a_fetch_need_no_address_and_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in GOOD:
        monkeypatch.delenv(name, raising=False)
    assert load(fetches=False).walks == 3
    with pytest.raises(SettingError) as refused:
        load()
    asked = "run `rollbook init`, which asks for both"
    assert refused.value.message == f"ROLLBOOK_BASE_URL and ROLLBOOK_API_KEY are not set: {asked}"
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    (tmp_path / ".env").write_text("ROLLBOOK_WALKS=4\n")  # `init` would leave the file alone
    with pytest.raises(SettingError) as refused:
        load()
    assert refused.value.message == (
        "ROLLBOOK_BASE_URL is not set: put it into .env at the root, or into the environment; ROLLBOOK_API_KEY is not"
        " set: put the key into a file, and the file's path into ROLLBOOK_API_KEY_FILE, in .env or in the environment"
    )


def test_the_documents_are_made_from_the_fields() -> None:
    """If this fails: `make docs`."""
    assert settings_documents.EXAMPLE.read_text("utf-8") == settings_documents.env_example()
    assert settings_documents.RUNNING.read_text("utf-8") == settings_documents.running()


def test_every_example_is_accepted_and_differs_from_the_default() -> None:
    fields = {name: field for name, field in every_setting().model_fields.items() if not is_secret(field)}
    given = every_setting()(**{name: about(field)["example"] for name, field in fields.items()})
    assert [name for name, field in fields.items() if getattr(given, name) == field.default] == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("BASE_URL", "records.oak.example", "must be an address such as"),
        ("BASE_URL", "ftp://records.example.org", "must be an address such as"),
        ("BASE_URL", "http://records.example.org", "must begin with https://"),
        ("BASE_URL", "https://me:pw@records.example.org", "must hold no user"),
        ("BASE_URL", "https://records.example.org/svcapi", "must end before /svcapi"),
        ("BASE_URL", "https://records.example.org/svcapi/v1/auth", "must end before /svcapi"),
        ("BASE_URL", "https://records.example.org:99999", "has an invalid host or port"),
        ("BASE_URL", "https://me:pw@[::1", "has an invalid host or port"),
        ("API_KEY", "two words", "must be the key as issued"),
        ("API_KEY", "schlüssel", "must be the key as issued"),
        ("TIMEZONE", "Mars/Olympus", "is not a time zone: write one such as"),
        ("CRON", "every night", "is not a cron line: write one such as"),
        ("CRON", "75 2 * * *", "is not a cron line"),
        ("FIRST_DATE", "yesterday", "valid date"),
        ("HOLD_REMOVED_PERCENT", "-1", "greater than or equal to 0"),
        ("HOLD_CHANGED_PERCENT", "101", "less than or equal to 100"),
        ("VERIFY_MOST", "many", "valid integer"),
        ("KEEP_DAYS", "0", "greater than or equal to 1"),
        ("KEEP_DAYS", "a month", "valid integer"),
        ("PUBLISHED_MODE", "rw", "must be 600, 640"),
        ("PSEUDONYMOUS_MODE", "666", "must be 600, 640"),
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
    assert len(value) < 4 or value not in caught.value.message  # which may be the key, in the wrong place
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "127.9.8.7", "localhost", "LOCALHOST:80", "[::1]:80"])
def test_plain_http_reaches_this_machine(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    there = setting(monkeypatch, ROLLBOOK_BASE_URL=f"http://{host}", ROLLBOOK_NOTIFY=f"json://{host}/hook")
    assert there.base_url == f"http://{host}"
    assert AlertSettings.of(there).notify_names == ("address 1 (json)",)


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
    assert (quoted.warehouse_path, quoted.keep_days, MorningSettings.of(quoted).report_names) == (
        Path("/data/warehouse"),
        30,
        True,
    )


def test_the_scheme_is_written_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        setting(monkeypatch, ROLLBOOK_BASE_URL="Https://Records.example.org/").base_url == "https://Records.example.org"
    )


FILES = {"key": "of-the-file\r\n", "empty": "\n", "odd": "two words"}
KEY_NAME, KEY_FILE = "ROLLBOOK_API_KEY", "ROLLBOOK_API_KEY_FILE"


@pytest.mark.parametrize(
    ("variables", "dotenv", "key"),
    [
        ({KEY_FILE: "key"}, {}, "of-the-file"),
        ({KEY_FILE: "'key'"}, {}, "of-the-file"),  # as `docker run --env-file` passes it on
        ({}, {KEY_FILE: "key"}, "of-the-file"),
        ({KEY_FILE: "key"}, {KEY_NAME: "of-dotenv"}, "of-the-file"),
        ({KEY_FILE: "key"}, {KEY_FILE: "nowhere"}, "of-the-file"),
        ({KEY_NAME: "of-the-environment"}, {KEY_FILE: "key"}, "of-the-environment"),
        ({KEY_FILE: ""}, {KEY_NAME: "of-dotenv"}, "of-dotenv"),
        ({KEY_NAME: "of-the-environment", KEY_FILE: "key"}, {}, "is both in ROLLBOOK_API_KEY and in the file"),
        ({}, {KEY_NAME: "of-dotenv", KEY_FILE: "key"}, "is both in ROLLBOOK_API_KEY and in the file"),
        ({KEY_FILE: "nowhere"}, {KEY_NAME: "of-dotenv"}, "cannot be read (No such file or directory)"),
        ({KEY_FILE: "."}, {}, "cannot be read (Is a directory)"),
        ({KEY_FILE: "empty"}, {KEY_NAME: "of-dotenv"}, "which is empty"),
        ({KEY_FILE: "odd"}, {}, "must be the key as issued"),
    ],
)
def test_a_secret_is_read_from_the_file_that_its_variable_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], dotenv: dict[str, str], key: str
) -> None:
    """The path is from the root; the environment beats `.env`, whichever of the two has the secret or its file."""
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in dotenv.items()))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    try:
        assert load(base_url="https://records.example.org").api_key.get_secret_value() == key
    except SettingError as error:
        assert error.message.startswith("ROLLBOOK_API_KEY ")
        assert key in error.message
        assert "two words" not in error.message
    assert misspelt() == []


def test_the_variables_that_hold_a_secret_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    secret = {
        "ROLLBOOK_API_KEY": "k3y",
        "ROLLBOOK_NOTIFY": "json://127.0.0.1:9",
        "AWS_SECRET_ACCESS_KEY": "/begins/like/a/path",
        "PGPASSWORD": "p",
        "OAK_KEY_2": "k",
        "APPRISE_URLS": "slack://a/b/c",
        "https_proxy": "http://school:pw@proxy.example:3128",
        "PIP_INDEX_URL": "https://user:t0ken@index.example/simple",
    }
    open_to_all = {
        "ROLLBOOK_API_KEY_FILE": str(tmp_path / "file"),
        "AWS_ACCESS_KEY_ID": "who",
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "file"),
        "PGPASSFILE": str(tmp_path / "file"),
        "TOKENIZERS_PARALLELISM": "false",
        "KEYMAP": "de",
        "HTTP_PROXY": "http://proxy.example:3128",
        "DAGSTER_PG_URL": "postgresql+psycopg2://dagster@db.example:5432/dagster",
        "GITHUB_TOKEN": "",
    }
    monkeypatch.setattr(settings.os, "environ", secret | open_to_all)  # type: ignore[attr-defined]
    assert settings.secrets_in_environment() == secret
    assert settings.public_environment() == open_to_all


def test_what_libraries_read_is_in_the_environment_for_a_moment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("s3cret\n")
    for name in ("AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY", "ROLLBOOK_API_KEY", "AWS_WEB_IDENTITY_TOKEN", "SSL_CERT"):
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "file"))
    before = dict(os.environ)
    with settings.with_secrets_of_libraries():
        added = {name: value for name, value in os.environ.items() if name not in before}
    assert added == {"AWS_SECRET_ACCESS_KEY": "s3cret", "HTTPS_PROXY": "s3cret"}
    assert dict(os.environ) == before


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
        "ROLLBOOK_COLOUR is not a setting: remove it",
        "ROLLBOOK_HOLD_REMOVE_PERCENT is not a setting: did you mean ROLLBOOK_HOLD_REMOVED_PERCENT?",
        "ROLLBOOK_KEEPDAYS is not a setting: did you mean ROLLBOOK_KEEP_DAYS?",
    ]
    assert misspelt() == names
    with pytest.raises(SettingError) as caught:
        setting(monkeypatch, ROLLBOOK_API_KEY="")
    assert caught.value.message.split("; ")[1:] == names
    monkeypatch.setenv("ROLLBOOK_DEMO", "1")  # whose school is not the one of `.env`
    assert misspelt() == names[:2]
