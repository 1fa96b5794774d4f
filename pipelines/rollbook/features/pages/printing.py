"""Prints pages into one PDF, by Chromium.

Chromium keeps all that it prints in memory, 0.8 GB for a hundred reports. So more are printed in parts, and pypdf joins
them. The outline leads to each report, by kind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from rollbook.errors import ArgumentError, MachineError
from rollbook.util import files

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
PRINT_SECONDS = 300  # for a part
PART = 100  # reports


def browser(reports: int) -> str:
    """The browser that prints so many reports. Raises ArgumentError without one, or without what joins its parts."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise ArgumentError(
            "A PDF is printed by Chromium, which is not on this machine: install it (Debian: apt-get install chromium),"
            " or leave out --pdf and print the pages from a browser"
        )
    if reports > PART:
        try:
            import pypdf  # noqa: F401 - before the work, not after it
        except ImportError:
            raise ArgumentError(
                f"A PDF of more than {PART} reports needs the extra `pdf`: pip install 'rollbook[pdf]'. Each class's"
                " own (--class ID) needs nothing more"
            ) from None
    return found


def print_page(browser: str, page: Path, pdf: Path, scratch: Path) -> None:
    """Print a page of ours. Raises MachineError."""
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [
        *(browser, "--headless", *as_root, "--disable-gpu", "--no-first-run", "--no-pdf-header-footer"),
        *("--generate-pdf-document-outline", f"--user-data-dir={scratch / 'browser'}"),
        *(f"--print-to-pdf={pdf}", page.as_uri()),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PRINT_SECONDS, check=False)  # noqa: S603 - our own words
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{Path(browser).name} could not print the pages ({type(error).__name__})") from None
    if not pdf.is_file():
        raise MachineError(
            f"{Path(browser).name} printed nothing (exit code {done.returncode}): {done.stderr[-300:].strip()}"
        )


def join(parts: Sequence[Path], kinds: Iterable[str], title: str, pdf: Path) -> None:
    """Write the parts as one PDF. `kinds` names the chapter of each report, in their order."""
    if len(parts) == 1:
        shutil.copyfile(parts[0], pdf)
    else:
        _join(parts, kinds, title, pdf)
    files.set_mode(pdf, files.PRIVATE_FILE)


def _join(parts: Sequence[Path], kinds: Iterable[str], title: str, pdf: Path) -> None:
    from pypdf import PdfReader, PdfWriter

    whole, of, chapters = PdfWriter(), iter(kinds), {}
    for part in parts:
        read, before = PdfReader(part), len(whole.pages)
        whole.append(read, import_outline=False)
        # A report's title; the lists among them are the headings below it.
        for each in (each for each in read.outline if not isinstance(each, list)):
            number, kind = before + (read.get_destination_page_number(each) or 0), next(of)
            if kind not in chapters:
                chapters[kind] = whole.add_outline_item(title=kind, page_number=number)
            whole.add_outline_item(title=each.title or "", page_number=number, parent=chapters[kind])
    whole.add_metadata({"/Title": title})
    whole.page_mode = "/UseOutlines"
    whole.write(pdf)
