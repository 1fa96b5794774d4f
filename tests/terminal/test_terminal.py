"""The service's text is shown, and never obeyed: neither by a terminal nor by what renders Markdown."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.progress import Progress
from rich.text import Text

from rollbook.terminal import LogLines, Terminal, table
from rollbook.util.text import markdown, printable
from tests.support.nights import House, folder
from tests.support.processes.commands import COMMAND
from tests.support.records import classes, students
from tests.support.wire.service import KEY, Service

# Title of the window, colour, cursor up and erase, the same by one C1 byte, a bell, right-to-left override, a line of
# its own, DEL, half a surrogate pair.
EVIL = "A\x1b]0;owned\x07B\x1b[31mC\x1b[1A\x1b[2KD\x9b31mE\u202efdp.exe\u2066F\rG\nH\x7fI\x00J\u2028K\u2069"
SHOWN = r"A\u001b]0;owned\u0007B\u001b[31mC\u001b[1A\u001b[2KD\u009b31mE\u202efdp.exe\u2066F\u000dG\nH\u007fI\u0000J\u2028K\u2069"


def harmless(text: str) -> bool:
    """Whether a text holds nothing that a terminal obeys, but line ends."""
    return not any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u2069\u2028" for c in text if c != "\n")


def test_control_characters_are_shown_by_their_numbers() -> None:
    assert printable(EVIL) == SHOWN
    assert printable("Zoë Müller-Łódź, 李雷, שלום, 👩🏽‍🏫 \\u001b") == "Zoë Müller-Łódź, 李雷, שלום, 👩🏽‍🏫 \\u001b"
    assert printable("half \ud83d") == r"half \ud83d"


def test_a_cell_and_a_heading_are_one_line_each_and_no_markup() -> None:
    file = io.StringIO()
    Terminal(file=file, width=200).print(table(EVIL, ("[red]a[/]", EVIL), [("[bold]b[/] :smile:", EVIL), (1, None)]))
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert lines[0] == SHOWN
    assert [cell.strip() for cell in lines[1].split("┃")] == ["[red]a[/]", SHOWN]
    assert [cell.strip() for cell in lines[3].split("│")] == ["[bold]b[/] :smile:", SHOWN]
    assert len(lines) == 5


def test_all_that_is_printed_passes_through_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, messages with markup of ours, the log, a progress bar's description; on a terminal, in colours."""
    file = io.StringIO()
    terminal = Terminal(file=file, force_terminal=True, width=200, color_system=None, legacy_windows=False)
    terminal.print(f"[bold]Why:[/] {EVIL}")
    terminal.print(Text(EVIL))
    record = logging.LogRecord("x", logging.WARNING, "f", 1, "%s", (EVIL,), None)
    monkeypatch.setattr(sys.modules["rollbook.terminal"], "err", terminal)
    LogLines().handle(record)
    assert "owned" in file.getvalue()
    assert not any(obeyed in file.getvalue() for obeyed in ("\x1b]0;", "\x1b[31m", "\x1b[2K", "\x9b", "\u202e", "\x07"))
    output = io.StringIO()
    with Progress(console=Terminal(file=output, width=200)) as bars:
        bars.add_task(EVIL)
    assert harmless(output.getvalue())


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Path]:
    """A warehouse whose institution and one of whose classes have names for terminals."""
    school = {"id": 41, "name": EVIL, "key": "made-up-school"}
    listed = classes(3)
    listed[0]["class_title"] = EVIL
    with folder() as root, Service(students(5), listed, school=school) as service:
        House(root / "w", service).sync()
        yield root / "w"


def run(warehouse: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    settings = {"WAREHOUSE": str(warehouse), "BASE_URL": "http://127.0.0.1:9", "API_KEY": KEY}
    environment = {**os.environ, "COLUMNS": "300"} | {f"ROLLBOOK_{k}": v for k, v in settings.items()}
    return subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, timeout=100, check=False)


@pytest.mark.parametrize(
    "arguments",
    [("sql", "SELECT class_title, class_id FROM classes ORDER BY 2 LIMIT 1"), ("status",), ("status", "--json")],
)
def test_commands_show_it_and_send_nothing_to_the_terminal(warehouse: Path, arguments: tuple[str, ...]) -> None:
    done = run(warehouse, *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    assert harmless(text)
    assert r"A\u001b]0;owned" in text
    assert not any(line.startswith("H") for line in text.splitlines())
    assert "--json" not in arguments or json.loads(text)["school_name"] == EVIL


def test_an_error_that_repeats_what_was_asked_is_harmless_too(warehouse: Path) -> None:
    done = run(warehouse, "sql", f'SELECT "{EVIL.replace(chr(0), "")}" FROM classes')
    assert done.returncode == 2
    assert r"A\u001b]0;owned" in done.stderr.decode()
    assert harmless(done.stderr.decode())


# --- Markdown --------------------------------------------------------------------------------------------------------

TITLES = [
    "plain", "a|b", "`code`", "<img src=x onerror=alert(1)>", "[click](http://evil.example)", "![x](http://evil.example/p.png)",
    "*bold* _it_ ~no~ __b__", "a\nb", "# heading", "&lt;b&gt;", "a\\|b\\", "<http://evil.example>", "|---|", "$x$", EVIL, "",
]  # fmt: skip


@pytest.mark.parametrize("title", TITLES)
def test_a_title_is_shown_in_markdown_as_it_is_written(title: str) -> None:
    table = f"| class_title | n |\n|---|---|\n| {markdown(title)} | 1 |"
    assert cells(table) == [["class_title", "n"], [printable(title.replace("\n", " ")), "1"]]


def cells(text: str) -> list[list[str]]:
    """The text in the cells of a table in Markdown; fails where anything but text is in them."""
    rows: list[list[str]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            assert {child.type for child in token.children or ()} <= {"text", "text_special"}, token
            rows[-1].append("".join(child.content for child in token.children or ()))
    return rows
