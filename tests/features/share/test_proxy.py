"""The proxy's recipe, as it is written in dagster_home/README.md, in a real nginx before the server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollbook.settings import ROOT
from tests.support.processes.desks import WORDS, Desk, Nights
from tests.support.processes.servers import free_port, until

pytestmark = pytest.mark.slow

WITHOUT_LOGIN = "location / { return 403; }"  # as a proxy's login refuses whom it does not know


def recipe() -> str:
    """The location of the shared file."""
    (location,) = re.findall(
        r"^location /file/ \{.*?^\}", (ROOT / "dagster_home" / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    return str(location)


@pytest.fixture
def proxied(port: int, tmp_path: Path) -> Iterator[int]:
    """The port of an nginx before the server; skipped aloud without nginx."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("there is no nginx: the proxy's recipe was not tried")
    front, folder = free_port(), tmp_path / "nginx"
    folder.mkdir()
    location = recipe().replace("127.0.0.1:3001", f"127.0.0.1:{port}")
    assert str(port) in location
    temporary = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;\n"
        f"events {{}} http {{ access_log off; gzip on; gzip_types *; {temporary}\n"
        f"server {{ listen 127.0.0.1:{front}; {WITHOUT_LOGIN}\n{location} }} }}\n"
    )
    with subprocess.Popen([nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]) as process:
        try:
            until(lambda: process.poll() is not None or (folder / "pid").exists(), 30, 0.05)
            assert process.poll() is None, (folder / "error.log").read_text()
            yield front
        finally:
            process.terminate()


def test_behind_the_proxy_only_the_programs_token_counts(nights: Nights, proxied: int) -> None:
    desk = Desk(proxied, nights.token())
    size = desk.attach()
    assert size == 4 * (WORDS + 2)
    nights.publish(3)
    assert desk.numbers(size) == {2}
    zipped = {"Accept-Encoding": "gzip"}
    part = desk.ask(headers={"Range": "bytes=0-7", **zipped})
    assert (part.status, part.body, part.headers["Content-Encoding"]) == (206, array("I", [2, 2]).tobytes(), None)
    whole = desk.ask(headers=zipped)
    assert ({*array("I", whole.body)}, whole.headers["Content-Encoding"]) == ({3}, None)
    assert desk.ask(headers={"Range": f"bytes={size * 2}-"}).status == 416
    for headers in ({"Authorization": ""}, {"Authorization": "", "Remote-User": "head@school.example"}):
        assert desk.ask(headers=headers).status == 401
    assert desk.ask(path="/students").status == 403
    assert desk.ask(path="/file/../students").status == 403
    nights.register.remove("ash")
    assert [desk.ask("HEAD").status, desk.read(0, 7).status] == [401, 401]
