"""Explorers: what the static face holds, what it refuses, and the live face without a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regimes import _frames, explorer, figures
from regimes.explorer import Explorer, Slider

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with mpl.rc_context():
        figures.use_style()
        yield
    plt.close("all")


def make(label: str = "A wave", scales: Any = (0.5, 1, 2), **given: Any) -> Explorer:
    """A wave, a dot and a title over two sliders."""
    fig, ax = plt.subplots()
    x = np.linspace(0, 6, 50)
    (wave,) = ax.plot(x, 0 * x)
    (dot,) = ax.plot([0], [0], "o")
    ax.plot(x, x / 6)
    ax.set(xlim=(0, 6), ylim=(-2, 2), xlabel="time", title="size 1")

    def update(scale: float, shift: float) -> None:
        wave.set_ydata(scale * np.sin(x + shift))
        dot.set_data([shift, 2, 5], [scale, 0, -1])
        ax.title.set_text(f"size {scale:g}")

    given = {"alt": lambda scale, shift: f"A wave of height {scale:g} from {shift:g}."} | given
    sliders = {"scale": Slider(scales, "scale α"), "shift": Slider((0, 1.5, 3), "shift")}
    return Explorer(fig, given.pop("update", update), sliders, label=label, **given)


def html_of(shown: Explorer) -> str:
    return shown._repr_mimebundle_()[0]["text/html"]


def data_of(shown: Explorer) -> dict[str, Any]:
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', html_of(shown), re.S)[1])


def decode(text: str) -> list[int | None]:
    """The inverse of `encode`, written anew."""
    half, values, number, place, value, slope = len(_frames.ALPHABET) // 2, [], 0, 1, 0, 0
    for letter in text:
        if letter == "|":
            values.append(None)
            continue
        digit = _frames.ALPHABET.index(letter)
        number, place = number + digit % half * place, place * half
        if digit < half:
            slope += -(number + 1) // 2 if number % 2 else number // 2
            value += slope
            values.append(value)
            number, place = 0, 1
    return values


@given(st.lists(st.integers(-100_000, 100_000) | st.none()))
def test_coordinates_survive_their_encoding(values: list[int | None]) -> None:
    assert decode(_frames.encode(np.array(values, dtype=float))) == values


def test_a_smooth_line_takes_a_character_a_point() -> None:
    line = np.round(1000 * np.sin(np.linspace(0, 6, 200)))
    assert len(_frames.encode(line)) < 210


def test_the_alphabet_is_harmless_in_json_and_html() -> None:
    assert len(set(_frames.ALPHABET)) == len(_frames.ALPHABET) == 86
    assert not set(_frames.ALPHABET) & set("<>&\"'\\|") - {"'"}


def test_frames_are_where_matplotlib_draws_them() -> None:
    shown = make()
    line = data_of(shown)["lines"]["l0"]
    shown._update(scale=2, shift=1.5)
    shown._figure.axes[0].lines[0].set_gid("wave")
    root = _frames._draw(shown._figure, "path")
    path = root.find(".//*[@id='wave']/{http://www.w3.org/2000/svg}path").get("d")
    drawn = np.array(re.findall(r"[ML] (\S+) (\S+)", path), dtype=float)
    frame = 2 * 3 + 1
    ys = decode(line["ys"][line["y"][frame]])
    assert line["x"] == 0 and len(line["xs"]) == 1
    stored = np.column_stack([decode(line["xs"][0]), ys]) * _frames.UNIT
    assert np.abs(stored - drawn).max() <= 0.051


def test_only_what_moves_is_stored() -> None:
    data = data_of(make())
    assert (set(data["lines"]), set(data["texts"])) == ({"l0", "l1"}, {"t0"})
    assert data["sizes"] == [3, 3]
    assert data["values"] == [["0.5", "1", "2"], ["0", "1.5", "3"]]
    assert [state[0] for state in data["texts"]["t0"]["states"]] == ["size 0.5", "size 1", "size 2"]
    assert data["texts"]["t0"]["at"] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data["alts"][data["alt"][5]] == "A wave of height 1 from 3."


def test_gaps_and_steps_are_kept() -> None:
    fig, ax = plt.subplots()
    (line,) = ax.step([0, 1, 2], [0, 0, 0], where="post")
    ax.set(xlim=(0, 2), ylim=(0, 3))
    shown = Explorer(
        fig, lambda k: line.set_ydata([k, np.nan, 1]), {"k": Slider((0, 1), "k")}, label="gap", alt="A gap."
    )
    ys = data_of(shown)["lines"]["l0"]["ys"]
    assert len(decode(ys[0])) == 5
    assert [y is None for y in decode(ys[0])] == [False, False, True, True, False]


def test_the_middle_frame_is_drawn_and_labelled_without_the_script() -> None:
    page = html_of(make(label="A <wave> & more"))
    svg = ElementTree.fromstring(re.search(r"<svg.*?</svg>", page, re.S)[0])
    assert svg.get("aria-label") == "A wave of height 1 from 1.5."
    assert (svg.get("role"), svg.get("width")) == ("img", None)
    assert svg.get("viewBox")
    assert "Drawn at scale α = 1, shift = 1.5." in page
    assert 'aria-label="A &lt;wave&gt; &amp; more"' in page and "<wave>" not in page
    assert page.count('type="range"') == 2 and 'class="regimes-explorer-controls" hidden' in page
    assert ">size 1</text>" in page
    marks = svg.findall(".//*[@id='explorer-a-wave-more-l1']//{http://www.w3.org/2000/svg}use")
    across = [float(mark.get("x")) for mark in marks]
    assert (across[2] - across[0]) / (across[1] - across[0]) == pytest.approx(3.5 / 0.5, rel=0.01)


def test_nothing_comes_from_elsewhere_and_nothing_leaks() -> None:
    page = html_of(make())
    named = set(re.findall(r"https?://[^\"' ]+", page))
    assert named <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "*{" not in page and "<metadata" not in page
    assert re.findall(r"<(?:link|img|iframe)\b|src=|@import", page) == []


def test_two_explorers_share_no_id_and_ids_resolve() -> None:
    first, second = html_of(make("A wave")), html_of(make("Another wave"))
    ids = [set(re.findall(r'\bid="([^"]+)"', page.split("<script>")[0])) for page in (first, second)]
    assert not ids[0] & ids[1]
    assert all(id.startswith("explorer-a-wave-") for id in ids[0])
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', first))
    assert used and used <= ids[0]


def test_what_starts_empty_can_appear_later() -> None:
    fig, ax = plt.subplots()
    (marks,) = ax.plot([], [], "o-")
    ax.set(xlim=(0, 2), ylim=(0, 2))
    said = ax.text(1, 1, "")

    def update(k: float) -> None:
        marks.set_data([k], [1])
        said.set_text("" if k == 1 else "seen")
        if k == 1:
            marks.set_data([], [])

    page = html_of(Explorer(fig, update, {"k": Slider((0, 1, 2), "k")}, label="later", alt="A mark."))
    assert 'id="explorer-later-l0"' in page and 'd=""' in page and "display: none" in page
    assert re.search(r'id="explorer-later-t0">\s*<text[^>]*>\s*</text>', page)


def test_what_is_invisible_at_the_start_is_refused() -> None:
    fig, ax = plt.subplots()
    (line,) = ax.plot([0, 1], visible=False)
    with pytest.raises(ValueError, match="invisible"):
        Explorer(fig, lambda k: line.set_ydata([k, k]), {"k": Slider((0, 1), "k")}, label="x", alt="x")


def test_the_same_explorer_gives_the_same_bytes() -> None:
    assert html_of(make()) == html_of(make())


def test_two_sliders_of_25_and_9_stops_weigh_little() -> None:
    fig, axes = plt.subplots(1, 2)
    x = np.linspace(-2, 2, 200)
    lines = [ax.plot(x, 0 * x)[0] for ax in axes for _ in range(2)]
    for ax in axes:
        ax.set(xlim=(-2, 2), ylim=(-2, 2))

    def update(a: float, b: float) -> None:
        for i, line in enumerate(lines):
            line.set_ydata(np.sin(a * x + i) * b)

    sliders = {"a": Slider(np.linspace(0, 3, 25), "a"), "b": Slider(np.linspace(0, 1, 9), "b")}
    shown = Explorer(fig, update, sliders, label="weight", alt="Four waves.")
    assert 150_000 < len(html_of(shown)) < 300_000


def test_frames_that_weigh_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "_LARGEST", 10_000)
    with pytest.raises(ValueError, match="fewer stops"):
        make()


@pytest.mark.parametrize(
    ("move", "told"),
    [
        (lambda ax, k: ax.set_xlim(0, k), "the limits of axes 0"),
        (lambda ax, k: ax.patches[0].set_height(k), "patch 0 of axes 0 .Rectangle"),
        (lambda ax, k: ax.collections[0].set_offsets([[k, k]]), "collection 0 of axes 0"),
        (lambda ax, k: ax.plot([0, k]), "the number of artists"),
        (lambda ax, k: ax.set_title(f"$k = {k}$"), "plain letters"),
        (lambda ax, k: ax.set_title(f"k\n{k}"), "plain letters"),
    ],
)
def test_what_the_page_could_not_show_is_refused(move: Any, told: str) -> None:
    fig, ax = plt.subplots()
    ax.bar([0], [1])
    ax.scatter([0], [1])
    ax.set(xlim=(0, 9), ylim=(0, 9))
    with pytest.raises(ValueError, match=told):
        Explorer(fig, lambda k: move(ax, k), {"k": Slider((1, 2, 3), "k")}, label="x", alt="x")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"alt": " "}, "say what is seen"),
        ({"alt": lambda **_: ""}, "say what is seen"),
        ({"label": "–"}, "label"),
    ],
)
def test_an_explorer_without_words_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make(**given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"values": [1]}, "two or more"),
        ({"values": [1, np.nan]}, "finite"),
        ({"values": [1, 1]}, "ascend"),
        ({"values": [0, 1], "log": True}, "positive"),
        ({"values": [0, 1], "label": " "}, "label"),
    ],
)
def test_sliders_are_checked(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Slider(**({"label": "k"} | given))


def test_values_are_written_with_a_minus_sign() -> None:
    assert Slider((-1, 0), "k", format="{:.2f} m").write(-0.5) == "−0.50 m"


def test_the_live_face_takes_any_value_between_the_ends() -> None:
    shown = make(scales=(0.5, 1.0, 2.0))
    picture, scale, _, told = shown.widget().children
    before = bytes(picture.value)
    scale.value = 1.2345
    assert bytes(picture.value) != before and bytes(picture.value[:4]) == b"\x89PNG"
    assert "height 1.2345 from 1.5" in told.value
    assert shown._figure.axes[0].get_title() == "size 1.2345"
    assert (scale.min, scale.max, scale.description) == (0.5, 2, "scale α")


def test_live_sliders_fit_their_stops() -> None:
    kinds = {
        "FloatLogSlider": Slider(np.logspace(-3, 1, 5), "k", log=True),
        "IntSlider": Slider((1, 2, 4), "k"),
        "FloatSlider": Slider((0, 0.5), "k"),
    }
    for name, slider in kinds.items():
        control = explorer._live(slider)
        assert type(control).__name__ == name
        assert control.value == pytest.approx(slider.values[slider.middle])
    assert explorer._live(kinds["FloatLogSlider"]).min == pytest.approx(-3)


def test_both_faces_are_in_one_bundle_only_where_ipython_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = make()
    data, metadata = shown._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"}
    assert metadata == {"regimes": {"explorer": "A wave"}}
    assert data["text/plain"] == "A wave: A wave of height 1 from 1.5."
    monkeypatch.setattr(explorer, "in_ipython", lambda: True)
    assert set(shown._repr_mimebundle_()[0]) == {"text/plain", "text/html", WIDGET}


def test_the_figure_is_closed_and_its_layout_settled() -> None:
    shown = make()
    assert not plt.get_fignums()
    left = shown._figure.axes[0].get_position().x0
    assert 0.02 < left < 0.12  # as constrained layout puts it; without it 0.125
    assert shown._figure.axes[0].get_title() == "size 1"


def test_widgets_are_imported_only_when_shown() -> None:
    code = "import sys, regimes.explorer; assert not {'ipywidgets', 'IPython'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_letters_first_drawn_in_a_moving_text_are_there_for_the_others():
    fig, ax = plt.subplots()
    title = ax.set_title("xyz")
    legend = ax.figure.text(0.5, 0.5, "zyx")
    legend.set_zorder(10)
    shown = Explorer(
        fig,
        lambda k: title.set_text(f"xyz {k}"),
        {"k": Slider([1, 2], "k")},
        label="Letters",
        alt="a title that moves",
    )
    html = shown._repr_mimebundle_()[0]["text/html"]
    used = set(re.findall(r'xlink:href="#([^"]+)"', html))
    assert used and used <= set(re.findall(r'id="([^"]+)"', html))
