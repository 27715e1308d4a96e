"""The static face of an explorer in a browser, opened from disk, without a site around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from regimes import figures
from regimes.explorer import Explorer, Slider

HEAD = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title>'
    '<meta name="viewport" content="width=device-width"><style>:root{color-scheme:light dark}</style>'
)


def explorer(label: str) -> Explorer:
    """A line, marks whose number changes, and a text that walks."""
    fig, ax = plt.subplots()
    (line,) = ax.plot([0, 1, 2], [0, 0, 0])
    (marks,) = ax.plot([], [], "o")
    text = ax.text(0, 2, "")
    ax.set(xlim=(0, 4), ylim=(0, 4), xlabel="x")

    def update(k: float, n: int) -> None:
        line.set_ydata([k, np.nan if k == 3 else 1, k])
        marks.set_data(np.arange(n), np.full(n, k))
        text.set_text(f"n = {n}")
        text.set_x(n / 2)

    sliders = {"k": Slider((0, 1, 2, 3), "height k"), "n": Slider((0, 1, 2), "number n")}
    return Explorer(fig, update, sliders, label=label, alt=lambda k, n: f"{n} marks at {k}.")


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """Two explorers on a page of 360 px, opened from disk; fails on errors and requests."""
    with mpl.rc_context():
        figures.use_style()
        bodies = [explorer(label)._repr_mimebundle_()[0]["text/html"] for label in ("First", "Second")]
    (tmp_path / "page.html").write_text(HEAD + "".join(bodies), encoding="utf-8")
    context = browser.new_context(viewport={"width": 360, "height": 800})
    page, faults = context.new_page(), []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: request.url.startswith("file:") or faults.append(request.url))
    page.goto((tmp_path / "page.html").as_uri())
    yield page
    context.close()
    assert not faults


def state(page: Page, slug: str = "first") -> dict:
    """What a reader sees and hears of one explorer."""
    return page.evaluate(
        """slug => {
          const root = document.querySelector(`[data-explorer=explorer-${slug}]`);
          const find = name => root.querySelector(`[id=explorer-${slug}-${name}]`);
          const marks = [...find('l1').querySelectorAll('use')].filter(m => m.style.display !== 'none');
          const path = [...find('l0').children].find(c => c.tagName === 'path');
          return {
            d: path.getAttribute('d'), marks: marks.length, x: find('t0').getBoundingClientRect().x,
            text: find('t0').textContent.trim(), alt: root.querySelector('svg').getAttribute('aria-label'),
            shown: [...root.querySelectorAll('output')].map(o => o.textContent),
            said: [...root.querySelectorAll('input')].map(i => i.getAttribute('aria-valuetext')),
            wide: document.documentElement.scrollWidth,
          };
        }""",
        slug,
    )


def test_the_keyboard_moves_everything(page: Page) -> None:
    before, other = state(page), state(page, "second")
    assert (before["marks"], before["text"], before["alt"]) == (1, "n = 1", "1 marks at 2.")
    page.get_by_label("number n").first.focus()
    page.keyboard.press("ArrowRight")
    after = state(page)
    assert (after["marks"], after["text"], after["alt"]) == (2, "n = 2", "2 marks at 2.")
    assert after["shown"] == after["said"] == ["2", "2"]
    assert after["x"] > before["x"] + 20
    page.keyboard.press("Home")
    assert state(page)["marks"] == 0
    assert state(page, "second") == other


def test_the_mouse_moves_the_line(page: Page) -> None:
    before = state(page)["d"]
    slider = page.get_by_label("height k").first
    box = slider.bounding_box()
    assert box["height"] >= 44
    page.mouse.click(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
    after = state(page)
    assert after["shown"][0] == "3" and after["d"] != before
    assert after["d"].count("M") == 2  # the missing point parts the line


def test_the_page_does_not_scroll_sideways_and_focus_is_seen(page: Page) -> None:
    assert state(page)["wide"] <= 360
    slider = page.get_by_label("height k").first
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert slider.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"


def test_without_scripts_the_middle_frame_stands(browser: Browser, page: Page) -> None:
    context = browser.new_context(java_script_enabled=False)
    still = context.new_page()
    still.goto(page.url)
    assert still.get_by_text("Drawn at height k = 2, number n = 1.").first.is_visible()
    assert not still.get_by_label("height k").first.is_visible()
    assert still.get_by_role("img").first.bounding_box()["height"] > 100
    context.close()
