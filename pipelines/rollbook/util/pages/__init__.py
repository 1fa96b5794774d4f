"""The common parts of the HTML pages that Rollbook writes.

    base.html    the frame: a page loads nothing from elsewhere, and search engines leave it out
    page.css     the look of all pages; `light.css` has their colours
    figure.html  a chart: its description, and `chart.svg`, its drawing; `spark.html` a line in a table's row

A page's template begins with `{% extends "base.html" %}` and is in the folder of the code that renders it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from rollbook.util.templates import Compiled
from rollbook.util.text import printable


def environment(package: str, **filters: Callable[..., str]) -> Environment:
    """Templates of a package, and the shared ones of this one. Values are escaped; a missing value is an error.

    Every template has the filter `printable`, which also escapes control characters.
    """

    def read(name: str) -> str | None:
        folders = (files(place).joinpath(name) for place in (package, __name__))
        return next((file.read_text(encoding="utf-8") for file in folders if file.is_file()), None)

    environment = Environment(
        loader=FunctionLoader(read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=Compiled(package),
    )
    environment.filters.update(filters, printable=lambda value: printable(str(value)))
    return environment
