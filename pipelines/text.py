"""Text that came from outside, made fit for where it is shown: a terminal, and Markdown. What is shown is not decided
here.
"""

from __future__ import annotations

# What a terminal obeys (C0, DEL and C1 controls), what turns the direction of the text around it, what a terminal may
# take for a line's end, and halves of surrogate pairs, which cannot be printed at all.
_CONTROLS = {*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029}
# Written as JSON writes them, so that JSON stays what it is.
_SHOWN = {code: f"\\u{code:04x}" for code in (*_CONTROLS, *range(0xD800, 0xE000))}
_ONE_LINE = _SHOWN | {ord("\n"): r"\n", ord("\t"): r"\t"}
_LINES = {code: shown for code, shown in _SHOWN.items() if chr(code) not in "\n\t"}

# By their numbers, not behind backslashes: in a table's cell and in HTML alike these are only ever text.
_MARKDOWN = {ord(mark): f"&#{ord(mark)};" for mark in "\\`|<>[]*_~&#!$"} | {ord("\n"): " "}


def printable(text: str, *, lines: bool = False) -> str:
    """A text without anything that a terminal would obey; line ends and tabs stay with `lines`, else they are shown."""
    return text.translate(_LINES if lines else _ONE_LINE)


def markdown(text: str) -> str:
    """A text that Markdown shows as it is written, on one line: no table's edge, link, image, emphasis or HTML."""
    return printable(text.translate(_MARKDOWN))
