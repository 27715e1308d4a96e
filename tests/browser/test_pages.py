"""Every page as a reader meets it: offline, legible, complete, on narrow screens, by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

MEGABYTE = 1_000_000
CHAPTER = "notebooks/03_diagonal_networks.html"
# Pages that Sphinx makes itself; they have nothing of ours.
GENERATED = {"genindex.html", "search.html", "py-modindex.html", "prf-prf.html"}


def pages(site: Path) -> list[str]:
    """All pages but `index.html`, which only leads to the front page."""
    found = (path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return sorted(name for name in found if not name.startswith("_") and name != "index.html")


def written(site: Path) -> list[str]:
    """The pages with our own content."""
    return [name for name in pages(site) if name not in GENERATED]


@contextmanager
def opened(browser: Browser, width: int = 1280, scheme: str = "light") -> Iterator[tuple[Page, list[str]]]:
    """A page, and the list in which whatever goes wrong on it is written down."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, faults = context.new_page(), []

    def request(sent) -> None:
        place = urlsplit(sent.url)
        if place.scheme not in ("file", "data", "blob") and place.hostname != "127.0.0.1":
            faults.append(f"asks another host for {sent.url}")

    def failed(sent) -> None:
        # Leaving a page ends what it was still loading.
        if sent.failure != "net::ERR_ABORTED":
            faults.append(f"could not load {sent.url}: {sent.failure}")

    page.on("request", request)
    page.on("requestfailed", failed)
    page.on("response", lambda got: got.status < 400 or faults.append(f"{got.status} for {got.url}"))
    page.on("pageerror", lambda error: faults.append(f"script error: {error}"))
    page.on("console", lambda said: said.type in ("error", "warning") and faults.append(said.text))
    yield page, faults
    context.close()


def settle(page: Page) -> None:
    """Waits until the mathematics, the last thing to arrive, is set."""
    page.wait_for_load_state("load")
    page.evaluate("() => window.MathJax?.startup?.promise")


@pytest.fixture(params=["http", "file"])
def base(request: pytest.FixtureRequest, site: Path) -> str:
    """Where pages are opened from: a server on this machine, or the disk."""
    return request.getfixturevalue("http") if request.param == "http" else site.as_uri()


def test_pages_load_nothing_from_elsewhere_and_set_their_mathematics(browser, site, base):
    with opened(browser) as (page, faults):
        told = []
        for name in pages(site):
            page.goto(f"{base}/{name}")
            settle(page)
            formulas, done, broken = page.evaluate(
                "() => ['.math', 'mjx-container', 'mjx-merror'].map(s => document.querySelectorAll(s).length)"
            )
            if formulas != done or broken:
                told.append(f"{name}: {formulas} formulas, {done} set, {broken} broken")
            told += [f"{name}: {fault}" for fault in faults]
            faults.clear()
        assert not told, "\n".join(told)


def test_the_folder_opens_on_the_front_page(browser, base):
    with opened(browser) as (page, _):
        page.goto(f"{base}/index.html")
        page.wait_for_url("**/book/intro.html")
        assert page.locator(".bd-article h1").inner_text().startswith("Regimes")


def test_chapter_has_mathematics(browser, site, http):
    with opened(browser) as (page, _):
        page.goto(f"{http}/{CHAPTER}")
        settle(page)
        assert page.locator("mjx-container").count() > 20


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_scrolls_sideways_on_a_phone(browser, site, http, scheme):
    with opened(browser, width=360, scheme=scheme) as (page, _):
        told = []
        for name in written(site):
            page.goto(f"{http}/{name}")
            settle(page)
            page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > 360:
                told.append(f"{name} is {width} pixels wide")
        assert not told, "\n".join(told)


def test_every_picture_has_words(browser, site, http):
    with opened(browser) as (page, _):
        told = []
        for name in written(site):
            page.goto(f"{http}/{name}")
            words = page.evaluate(
                """() => [...document.querySelectorAll(".bd-article img, .bd-article svg[role=img]")].map(
                  (image) => image.getAttribute(image.matches("img") ? "alt" : "aria-label") ?? "")"""
            )
            # A builder without better words takes the file's path.
            told += [f"{name}: {said!r}" for said in words if len(said.split()) < 3 or "/_images" in said]
        assert not told, "\n".join(told)


def test_pages_are_light(site):
    told = []
    for name in written(site):
        html = (site / name).read_text(encoding="utf-8")
        images = set(re.findall(r'src="([^"]*_images/[^"]+)"', html))
        weight = len(html.encode()) + sum((site / name).parent.joinpath(i).stat().st_size for i in images)
        if weight > 1.5 * MEGABYTE:
            told.append(f"{name} weighs {weight / MEGABYTE:.2f} MB")
    assert not told, "\n".join(told)


def test_shared_files_are_light(site):
    mathjax = sum(path.stat().st_size for path in (site / "_static/mathjax").rglob("*") if path.is_file())
    assert mathjax < 2.3 * MEGABYTE
    assert not list(site.rglob("*.map"))


def picture(page: Page) -> str:
    """The explorer's drawing and words, as they stand."""
    return page.evaluate(
        """() => {
          const svg = document.querySelector('.cell_output svg[role=img]');
          return svg.outerHTML + svg.getAttribute('aria-label');
        }"""
    )


def test_slider_moves_the_picture_by_mouse_and_by_keyboard(browser, base):
    with opened(browser) as (page, faults):
        page.goto(f"{base}/{CHAPTER}")
        settle(page)
        sliders = page.locator(".cell_output input[type=range]")
        assert sliders.count() >= 1
        for number in range(sliders.count()):
            slider = sliders.nth(number)
            assert slider.evaluate("(s) => s.labels.length > 0 || s.ariaLabel"), "a slider without a label"
            slider.scroll_into_view_if_needed()
            seen = [picture(page)]
            box = slider.bounding_box()
            page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + box["height"] / 2)
            seen.append(picture(page))
            said = slider.get_attribute("aria-valuetext")
            slider.focus()
            page.keyboard.press("Home")
            seen.append(picture(page))
            assert slider.get_attribute("aria-valuetext") != said
            page.keyboard.press("ArrowRight")
            seen.append(picture(page))
            assert all(a != b for a, b in pairwise(seen)), f"slider {number} draws nothing"
        assert not faults


def test_search_finds_hypentropy_and_leads_to_the_chapter(browser, base):
    with opened(browser) as (page, _):
        page.goto(f"{base}/search.html?q=hypentropy")
        link = page.locator(f'#search-results a[href*="{Path(CHAPTER).name}"]').first
        link.click()
        page.wait_for_url(f"**/{CHAPTER}*")
        assert "Diagonal" in page.locator(".bd-article h1").inner_text()


def test_claims_in_the_text_lead_to_their_cells(browser, site, http):
    with opened(browser) as (page, _):
        page.goto(f"{http}/{CHAPTER}")
        links = page.eval_on_selector_all("a.claim", "(all) => all.map((a) => a.hash)")
        assert links
        missing = [hash for hash in set(links) if page.locator(f'[id="{hash[1:]}"]').count() != 1]
        assert not missing


def test_ledger_can_be_filtered(browser, base):
    with opened(browser) as (page, _):
        page.goto(f"{base}/book/ledger.html")
        rows = page.locator(".regimes-ledger tbody tr")
        all_rows = rows.count()
        page.get_by_label("Filter").fill("A3.kkt")
        shown = [i for i in range(all_rows) if rows.nth(i).is_visible()]
        assert 0 < len(shown) < all_rows
        assert "A3.kkt" in rows.nth(shown[0]).inner_text()


CONTRAST = """() => {
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parse = (css) => (css.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(node).backgroundColor);
      if (a > 0.5) return [r, g, b];
    }
    return [255, 255, 255];
  };
  // The sign # shows only beside a heading that is pointed at; assistive markup is never seen.
  const skipped = "script, style, svg, mjx-assistive-mml, .headerlink";
  const poor = [];
  const walker = document.createTreeWalker(document.querySelector(".bd-article"), NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility() || node.closest(skipped)) continue;
    const [a, b] = [parse(getComputedStyle(node).color).slice(0, 3), behind(node)].map(light);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${text.data.trim().slice(0, 40)} (${ratio.toFixed(1)}, ${node.className})`);
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(browser, site, http, scheme):
    with opened(browser, scheme=scheme) as (page, _):
        told = []
        for name in written(site):
            page.goto(f"{http}/{name}")
            settle(page)
            assert page.evaluate("document.documentElement.dataset.theme") == scheme
            told += [f"{name}: {poor}" for poor in page.evaluate(CONTRAST)]
        assert not told, "\n".join(told)
