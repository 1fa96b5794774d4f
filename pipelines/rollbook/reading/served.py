"""Pages that commands write, over HTTP, beside Dagster's UI. They are served without names."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.responses import HTMLResponse, PlainTextResponse, Response

from rollbook.store.published import REPORT

# The morning page may run its own script, but has no access to the UI served on the same origin.
REPORT_HEADERS = {"Content-Security-Policy": "sandbox allow-scripts"}
# Not everybody who may use the UI, as behind a proxy, may read names: they stay in the file, whose mode says who may.
_NAMES = re.compile("<!-- names -->.*<!-- end of names -->", re.DOTALL)
_NO_NAMES = f'<p class="quiet">Names are only in the file {REPORT} of the warehouse, not in the browser.</p>'


def served_page(page: Path, title: str, command: str) -> Response:
    """Return a page that a command wrote, without names."""
    try:
        text = page.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        return PlainTextResponse(f"There is no {title} yet: run `{command}`, which writes it.\n", 404)
    return HTMLResponse(_NAMES.sub(_NO_NAMES, text), headers=REPORT_HEADERS)
