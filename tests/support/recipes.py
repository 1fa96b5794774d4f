"""The recipes of `Connect from` in the data dictionary: each tool's blocks of code."""

from __future__ import annotations

import re

from rollbook.assembly import chapters
from rollbook.views import dictionary

# A query in another language: what stands between quotation marks.
QUERY = re.compile(r"\"((?:SELECT [^\"]+? )?FROM [^\"]+)\"")


def recipes() -> dict[str, list[tuple[str, str]]]:
    """Each tool's blocks of code, with the language of each."""
    _, _, page = dictionary.render(chapters()).partition("\n## Connect from\n")
    page, _, _ = page.partition("\n## ")
    parts = re.split(r"^### (.+)$", page, flags=re.MULTILINE)
    return {
        tool: re.findall(r"```(\w+)\n(.*?)```", text, flags=re.DOTALL)
        for tool, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def block(tool: str, language: str) -> str:
    """A tool's only block in a language."""
    (text_of_tool,) = [text for kind, text in recipes()[tool] if kind == language]
    return text_of_tool
