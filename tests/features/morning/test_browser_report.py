"""The morning page in a browser: on a desk and on a phone, by day and by night, and on paper."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import duckdb
import pytest
from playwright.sync_api import Browser, Page

from rollbook.features.morning import morning
from tests.support.warehouses.school import DAYS, School

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(180)]

MADE = datetime(2026, 10, 7, 2, 16, tzinfo=UTC)
# (width, height), and what the device prefers.
SIGHTS: list[tuple[int, int, Literal["light", "dark"]]] = [
    (1280, 900, "light"),
    (1280, 900, "dark"),
    (390, 840, "light"),
    (320, 600, "dark"),
]
SMALLEST = "Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height))"
# Texts of charts that cover one another, or reach out of their card.
COLLIDING = """() => [...document.querySelectorAll('figure')].flatMap(figure => {
  const card = figure.closest('section, footer').getBoundingClientRect()
  const found = []
  const texts = [...figure.querySelectorAll('text, div')].map(t => [t.textContent, t.getBoundingClientRect()])
  texts.forEach(([a, p], n) => {
    if (p.left < card.left || p.right > card.right || p.bottom > card.bottom) found.push([a])
    for (const [b, q] of texts.slice(n + 1))
      if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 4 && q.top < p.bottom - 4)
        found.push([a, b])
  })
  return found
})"""


@pytest.fixture(scope="module", params=["counts", "names", "trouble"])
def file(fortnight: School, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The page of the fortnight: with counts only, with names, and with nights of every outcome and long titles."""
    with duckdb.connect(str(fortnight.published), read_only=True) as con:
        data = morning.load_morning(con, names=request.param == "names")
    trouble = ""
    if request.param == "trouble":
        trouble = "Held: " + "https://records.example.org/" + "a" * 80
        outcomes = list(morning.OUTCOMES)
        nights = tuple(morning.Night(day, 9, 2, outcome) for day, outcome in zip(DAYS, outcomes, strict=False))
        long = tuple(replace(w, class_title=f"{w.class_title} {'Wissenschaft' * 6}") for w in data.watched)
        data = replace(data, nights=nights, watched=long, ahead=())
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(morning.render(data, morning.draw(data), at=MADE, trouble=trouble), encoding="utf-8")
    return path


class Seen:
    """An open page, the messages in its console and the addresses that it asked for."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page = page
        self.messages: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(file.as_uri())


def test_it_opens_cleanly_fits_and_can_be_read_at_every_width(browser: Browser, file: Path) -> None:
    for width, height, scheme in SIGHTS:
        with browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme) as context:
            seen = Seen(context.new_page(), file)
            seen.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            assert seen.messages == []
            assert [a for a in seen.asked if not a.startswith("data:")] == [file.as_uri()]
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
            # Nothing hangs out of its card either.
            assert seen.page.evaluate(
                "[...document.querySelectorAll('section')].every(s => s.scrollWidth <= s.clientWidth + 1)"
            )
            assert seen.page.evaluate(SMALLEST) >= 9
            assert seen.page.evaluate(COLLIDING) == []
            light = seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
            assert light is (scheme == "light")


def test_text_stands_out_from_what_is_behind_it(browser: Browser, file: Path) -> None:
    """WCAG AA: 4.5 to 1, by day and by night, of every text on its own ground."""
    for scheme in ("light", "dark"):
        with browser.new_context(color_scheme=scheme) as context:
            seen = Seen(context.new_page(), file)
            assert seen.page.evaluate(_FAINT) == []


_FAINT = """() => {
  const lum = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b }
  const ground = e => { for (; e; e = e.parentElement) { const b = getComputedStyle(e).backgroundColor
    if (b !== 'rgba(0, 0, 0, 0)') return b } }
  const faint = []
  for (const e of document.querySelectorAll('p, h1, h2, li, td, th, strong, span, summary, svg text, svg div')) {
    const style = getComputedStyle(e), colour = e.tagName === 'text' ? style.fill : style.color
    const [a, b] = [lum(colour), lum(ground(e))].sort((x, y) => y - x)
    const mark = colour === getComputedStyle(document.body).backgroundColor // on a square, not on the page
    if ((a + .05) / (b + .05) < 4.5 && !mark)
      faint.push([e.textContent.trim().slice(0, 30), colour, ground(e)])
  }
  return faint
}"""


@pytest.mark.parametrize(("hours", "is_old"), [(1, False), (35, False), (37, True)])
def test_a_page_that_no_sync_has_followed_says_so(browser: Browser, file: Path, hours: int, is_old: bool) -> None:
    with browser.new_context() as context:
        opened = context.new_page()
        opened.clock.set_fixed_time(MADE + timedelta(hours=hours))
        seen = Seen(opened, file)
        assert seen.page.get_by_text("This page is old.").is_visible() is is_old
        assert seen.messages == []
