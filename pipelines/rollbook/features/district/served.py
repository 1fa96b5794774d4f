"""The page about all institutions over HTTP, beside Dagster's UI."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rollbook import settings
from rollbook.reading.served import served_page
from rollbook.store.district import FLEET_REPORT


def district_page(_request: Request) -> Response:
    """Return the page about all institutions."""
    return served_page(settings.common_path() / FLEET_REPORT, "page about all institutions", "rollbook fleet report")


ROUTES = [Route(f"/{FLEET_REPORT}", district_page)]
