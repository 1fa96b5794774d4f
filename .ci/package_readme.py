"""The package's page: README.md without what only a checkout can show.

A relative link leads nowhere on the page of a package, and so does a picture. With an address in `[project.urls]`,
links are made absolute; there is none yet.
"""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]+\)\n*|<(?:img|picture|source)[^>]*>\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)")


def page(text: str, source: str = "") -> str:
    """Return the README as a package shows it; relative links lead below `source`, if there is an address."""
    without = _PICTURE.sub("", text)
    if not source:
        return _LINK.sub(r"\1", without)
    return _LINK.sub(lambda link: f"[{link[1]}]({source.rstrip('/')}/{link[2]})", without)


class PackageReadme(MetadataHookInterface):
    """Gives the package its page."""

    def update(self, metadata: dict[str, object]) -> None:
        """Set the readme."""
        urls = metadata.get("urls")
        source = str(urls.get("Source", "")) if isinstance(urls, dict) else ""
        text = page(Path(self.root, "README.md").read_text("utf-8"), source and f"{source.rstrip('/')}/blob/main")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
