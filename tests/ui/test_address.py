"""An app's address in its private file: kept, damaged, changed, and handed out only while the app listens."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from rollbook.util import address
from rollbook.util.address import Kept, UnreadableError, known, listen, listened, serving
from tests.support.processes.accounts import NOBODY
from tests.support.processes.servers import free_port


def test_each_app_and_port_has_an_address_of_its_own_that_stays(tmp_path: Path) -> None:
    urls = {}
    for app, port in (("ui", 3000), ("ui", 3001), ("explore", 3001)):
        with serving(tmp_path, app, port) as kept:
            urls[app, port] = kept.read().url(port)
        with serving(tmp_path, app, port) as again:
            assert again.read().url(port) == urls[app, port]
    assert (
        len({re.split("[/:=]", url)[3] for url in urls.values()})
        == len({url.rpartition("=")[2] for url in urls.values()})
        == 3
    )
    assert re.fullmatch(r"http://[0-9a-f]{12}\.localhost:3000/\?access_token=[\w-]{22}", urls["ui", 3000])
    assert [(kept.app, kept.port) for kept in known(tmp_path, "ui")] == [("ui", 3000), ("ui", 3001)]
    assert [kept.port for kept in known(tmp_path, "ui", 3001)] == [3001]
    assert known(tmp_path / "none", "ui") == []
    modes = {path.stat().st_mode & 0o077 for path in (tmp_path / "addresses").rglob("*")}
    assert modes == {0}


def test_it_is_handed_out_only_while_the_app_listens(tmp_path: Path) -> None:
    (tmp_path / "addresses").mkdir()
    kept = Kept(tmp_path, "ui", 3000)
    assert not kept.is_served()
    with serving(tmp_path, "ui", 3000):
        assert kept.is_served()
        assert kept.is_served()
    assert not kept.is_served()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"name":"a.localhost"}', b'{"name":1,"token":2}', b"\xff"])
def test_until_a_damaged_file_is_replaced_at_start_the_last_one_counts(tmp_path: Path, content: bytes) -> None:
    with serving(tmp_path, "ui", 3000) as kept:
        before = kept.read()
        kept.path.write_bytes(content)
        assert kept.read() == before
        with pytest.raises(UnreadableError, match="cannot be read"):
            Kept(tmp_path, "ui", 3000).read()
        kept.path.unlink()
        assert kept.read() == before
        kept.path.write_bytes(content)
    with serving(tmp_path, "ui", 3000) as kept:
        assert kept.read().token not in ("", before.token)


def test_another_host_is_a_name_that_browsers_know(tmp_path: Path) -> None:
    names = []
    for host in ("127.0.0.1", "192.168.1.5", "fe80::1", "Rollbook.example", "::", "localhost"):
        with serving(tmp_path, "ui", 3000, host) as kept:
            names.append(kept.read().name)
            kept.renew(kept.read().host)
            names.append(kept.read().name)
    own = [name for name in names if name.endswith(".localhost")]
    assert [name for name in names if name not in own] == [
        *("192.168.1.5", "192.168.1.5", "[fe80::1]", "[fe80::1]", "rollbook.example", "rollbook.example"),
    ]
    assert len(set(own)) == 5, "each change makes another name, and `::` and `localhost` share one"


def test_a_named_app_listens_on_both_addresses_that_browsers_try() -> None:
    assert listened("127.0.0.1") == ["127.0.0.1", "::1"]
    assert listened("0.0.0.0") == ["0.0.0.0", "::1"]  # noqa: S104 - nothing listens
    assert listened("::1") == ["::1", "127.0.0.1"]
    assert listened("192.168.1.5") == ["192.168.1.5"]
    port = free_port()
    opened = [listen(host, port) for host in listened("0.0.0.0")]  # noqa: S104 - for a moment
    for host in ("127.0.0.1", "::1"):
        socket.create_connection((host, port), timeout=5).close()
    for each in opened:
        each.close()


def test_a_machine_without_ipv6_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(address, "listen", refuse)
    assert listened("127.0.0.1") == ["127.0.0.1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give a file away")
def test_what_the_superuser_changes_stays_the_owners(tmp_path: Path) -> None:
    os.chown(tmp_path, NOBODY, NOBODY)
    kept = Kept(tmp_path, "ui", 3000)
    kept.renew()
    page = kept.page(kept.read().url(3000))
    assert {path.stat().st_uid for path in (kept.path, kept.path.parent, page)} == {NOBODY}
    kept.renew()
    assert not page.exists(), "it had the old token"
