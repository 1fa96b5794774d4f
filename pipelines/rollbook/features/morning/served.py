"""The morning pages over HTTP, beside Dagster's UI: of a single school, or of each institution."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from rollbook import settings
from rollbook.errors import RollbookError
from rollbook.features.morning.page import FILE
from rollbook.institutions import Registry
from rollbook.reading.served import served_page
from rollbook.store.district import DISTRICT_REPORT

LIST_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
LIST_OF_PAGES = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Rollbook: morning pages</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem }}</style>
<h1>Morning pages</h1>
<p>{together}</p>
<ul>
{rows}
</ul>
</html>
"""


def report_page(request: Request) -> Response:
    """Return the morning page of a single school or one institution, or the list of all institutions' pages."""
    name = request.path_params.get("name", "")
    try:
        registry = settings.registry()
        if registry is not None and not name:
            return HTMLResponse(_list_of_pages(registry), headers=LIST_HEADERS)
        if registry is None or name in registry.institutions:  # no other name becomes part of a path
            place = settings.place(name or None)
            return served_page(place.warehouse_path / FILE, "morning page", place.command("sync"))
    except RollbookError as error:
        return PlainTextResponse(f"{error.message}\n", 404)
    return PlainTextResponse("The registry has no such institution.\n", 404)


def _list_of_pages(registry: Registry) -> str:
    """Return links to the institutions' morning pages, and to the page about all. Names hold no markup."""
    common, pages = settings.common_path(), {name: f"report/{name}.html" for name in registry.institutions}
    there = [name for name in pages if (common / name / FILE).is_file()]
    together = (
        f'<a href="{DISTRICT_REPORT}">All institutions</a>'
        if (common / DISTRICT_REPORT).is_file()
        else "<code>rollbook district report</code> writes a page about all institutions."
    )
    rows = [f'<li><a href="{pages[name]}">{name}</a></li>' if name in there else f"<li>{name}</li>" for name in pages]
    return LIST_OF_PAGES.format(rows="\n".join(rows), together=together)


ROUTES = [
    Route(f"/{FILE}", report_page),
    Route("/report/{name}.html", report_page),
]
