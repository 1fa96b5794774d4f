"""The page about all institutions over HTTP, beside Dagster's UI."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rollbook import settings
from rollbook.reading.served import served_page
from rollbook.store.district import DISTRICT_REPORT


def district_page(_request: Request) -> Response:
    """Return the page about all institutions."""
    return served_page(
        settings.common_path() / DISTRICT_REPORT, "page about all institutions", "rollbook district report"
    )


ROUTES = [Route(f"/{DISTRICT_REPORT}", district_page)]
