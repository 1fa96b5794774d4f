"""Writes what the fields of the settings say into the two documents about them: `.env.example`, and the table in
dagster_home/README.md.

`make docs` runs this; a test fails when a document is stale.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from pydantic.fields import FieldInfo

from rollbook.settings import PREFIX, ROOT, Group, about, groups, is_secret, own_fields

EXAMPLE, RUNNING = ROOT / ".env.example", ROOT / "dagster_home" / "README.md"
TABLE = re.compile(r"(<!-- Settings: made by `make docs`[^\n]*-->\n\n).*?(?=<!-- End of the settings -->)", re.DOTALL)
WIDTH = 120
# Written out in .env.example, not commented out: a sync needs them.
REQUIRED = "(required)"


def variable(name: str, field: FieldInfo) -> str:
    """The variable to write: a secret's names its file."""
    return f"{PREFIX}{name}".upper() + ("_FILE" if is_secret(field) else "")


def default(field: FieldInfo) -> str:
    """The default as somebody writes it, with its unit; in words if there is none."""
    if is_secret(field) or field.default in (None, ""):
        return str(about(field)["unset"])
    return f"`{field.default}` {about(field)['unit']}".strip()


def title(group: type[Group]) -> str:
    """The title of a group: the first line of its docstring."""
    return (group.__doc__ or "").splitlines()[0].rstrip(".")


def env_example() -> str:
    """The content of .env.example."""
    return "\n".join(_env_lines()) + "\n"


def _env_lines() -> Iterator[str]:
    yield "# Rollbook's settings: copy to .env, and fill in the first two. A variable set in the environment beats this file."
    yield "# Made by `make docs` from the fields in pipelines/rollbook/settings.py."
    for group in groups():
        yield f"\n## {title(group)}"
        for name, field in own_fields(group).items():
            needed = default(field) == REQUIRED
            says = f"{field.description}.{'' if needed else f' Default: {default(field)}.'}"
            says = re.sub(r"\[(\w+)\]\((\S+)\)", r"\1 (\2)", says.replace("`", ""))
            yield ""
            yield from textwrap.wrap(
                says[0].upper() + says[1:], WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
            )
            yield f"{'' if needed else '#'}{variable(name, field)}={about(field)['example']}"


def table() -> str:
    """The table of all settings, in Markdown, and which of them an institution cannot have for itself."""
    fields = {name: field for group in groups() for name, field in own_fields(group).items()}
    rows = (
        f"| `{variable(name, field)}` | {default(field)} | `{about(field)['example']}` | {field.description} |"
        for name, field in fields.items()
    )
    shared = ", ".join(f"`{name}`" for name, field in fields.items() if about(field)["for_all"])
    return "\n".join(
        (
            "| setting | default | example | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
            f"All institutions of a registry share these, which cannot be in `institutions.toml`: {shared}.",
            "",
        )
    )


def running() -> str:
    """The content of dagster_home/README.md, with the table as it should be."""
    text, found = TABLE.subn(lambda at: f"{at[1]}{table()}\n", RUNNING.read_text("utf-8"))
    assert found == 1, "dagster_home/README.md lacks the comments around the table"
    return text


if __name__ == "__main__":
    EXAMPLE.write_text(env_example(), "utf-8")
    RUNNING.write_text(running(), "utf-8")
