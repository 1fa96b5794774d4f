"""Formats counts and lists for messages, escapes untrusted text for terminals and Markdown, and decodes files."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from contextlib import suppress

# Terminal control characters (C0, DEL, C1), characters that change the text's direction, and line separators.
_CONTROLS = {*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029}
# Escaped as in JSON, so that JSON stays valid; lone surrogates too, which cannot be printed at all.
_ESCAPED = {code: f"\\u{code:04x}" for code in (*_CONTROLS, *range(0xD800, 0xE000))}
_ONE_LINE = _ESCAPED | {ord("\n"): r"\n", ord("\t"): r"\t"}
_LINES = {code: escaped for code, escaped in _ESCAPED.items() if chr(code) not in "\n\t"}

# Numeric character references, not backslashes: they are plain text in both table cells and HTML.
_MARKDOWN = {ord(mark): f"&#{ord(mark)};" for mark in "\\`|<>[]*_~&#!$"} | {ord("\n"): " "}


def printable(text: str, *, lines: bool = False) -> str:
    """Escape everything that a terminal would act on; with `lines`, keep line breaks and tabs."""
    return text.translate(_LINES if lines else _ONE_LINE)


def cell(value: object) -> str:
    """A value of a table for people; an unknown one is empty."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def figure(value: float | None, unit: str = "") -> str:
    """A number for people: a count, or a measure with one decimal; a dash if it is not known."""
    if value is None:
        return "\N{EN DASH}"
    return f"{value:,}{unit}" if isinstance(value, int) else f"{value:,.1f}{unit}"


def markdown(text: str) -> str:
    """Escape a text so that Markdown shows it literally, on one line: no new cell, link, image, emphasis or HTML."""
    return printable(text.translate(_MARKDOWN))


def count_of(number: int, thing: str) -> str:
    """Return a count with its noun: `1 day`, `2,000 days`, `2 classes`."""
    return f"{number:,} {thing}{'' if number == 1 else 'es' if thing.endswith('s') else 's'}"


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names, comma-separated; after the first `most`, only how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def decoded(content: bytes) -> tuple[str, str]:
    """A file's text, and its encoding: UTF-8, or what else spreadsheet programs save. A byte order mark stays."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        with suppress(UnicodeDecodeError):
            return content.decode("utf-16"), "utf-16"
    for coding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return content.decode(coding), coding
    return content.decode("latin-1"), "latin-1"  # any bytes are text in it
