"""The book's style, bands, and what `show` puts into a cell's output."""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from regimes import figures

# How the three kinds of dichromats see linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
DICHROMATS = {
    "none": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with mpl.rc_context():
        figures.use_style()
        yield
    plt.close("all")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict, dict]]:
    outputs: list[tuple[dict, dict]] = []
    monkeypatch.setattr(figures, "show_bundle", lambda data, metadata: outputs.append((data, metadata)))
    return outputs


def draw(points: int = 20) -> Figure:
    fig, ax = plt.subplots()
    ax.plot(np.random.default_rng(0).random(points), label="random")
    ax.set(xlabel="step", ylabel=r"loss $\ell$")
    ax.legend()
    return fig


def show(fig: Figure, name: str = "fig-loss", **given: Any) -> None:
    figures.show(fig, name, **({"caption": "The loss.", "alt": "A line that falls."} | given))


def linear(color: str) -> np.ndarray:
    rgb = np.array(mpl.colors.to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB, for white D65."""
    x, y, z = np.cbrt(XYZ @ np.clip(rgb, 0, 1) / XYZ.sum(1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", DICHROMATS)
def test_every_eye_tells_the_colours_apart(kind: str) -> None:
    seen = [lab(np.array(DICHROMATS[kind]) @ linear(color)) for color in figures.COLORS]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 20


def test_every_colour_stands_out_on_white() -> None:
    for color in [*figures.COLORS, *figures.palette(9, ordered=True)]:
        assert 1.05 / ((XYZ @ linear(color))[1] + 0.05) > 2, color
    assert min(1.05 / ((XYZ @ linear(color))[1] + 0.05) for color in figures.COLORS) > 3


def test_lines_differ_without_colour() -> None:
    fig, ax = plt.subplots()
    lines = [ax.plot([0, 1])[0] for _ in figures.COLORS]
    assert [line.get_color() for line in lines] == figures.palette(len(lines))
    assert len({str(line._dash_pattern) for line in lines}) == len(lines)
    assert fig.get_figwidth() == figures.WIDTH


def test_palette() -> None:
    shades = [lab(linear(color))[0] for color in figures.palette(9, ordered=True)]
    assert shades == sorted(shades)
    assert len(figures.palette(1, ordered=True)) == 1
    for n, ordered in ((0, False), (0, True), (7, False)):
        with pytest.raises(ValueError, match=rf"palette\({n}\)"):
            figures.palette(n, ordered=ordered)


def test_show_gives_one_svg_with_what_the_page_needs(shown: list) -> None:
    fig = draw()
    show(fig, caption="The\n loss $\\ell$.")
    ((data, metadata),) = shown
    assert set(data) == {"image/svg+xml", "text/plain"}
    assert data["text/plain"] == "A line that falls."
    assert metadata == {
        "regimes": {"name": "fig-loss", "caption": "The loss $\\ell$.", "alt": "A line that falls."}
    }
    assert 'width="432pt"' in data["image/svg+xml"]
    assert re.search(r"fill: #ffffff", data["image/svg+xml"])
    assert not plt.fignum_exists(fig.number)


def test_the_same_figure_gives_the_same_bytes(shown: list) -> None:
    show(draw())
    show(draw())
    assert shown[0] == shown[1]


def test_a_live_notebook_shows_the_caption_too(shown: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "in_ipython", lambda: True)
    show(draw())
    assert shown[1][0]["text/markdown"] == "The loss."
    assert shown[1][1] == {"regimes": {"caption_of": "fig-loss"}}


def test_a_heavy_drawing_becomes_a_sharp_raster(shown: list) -> None:
    fig, ax = plt.subplots()
    ax.scatter(*np.random.default_rng(0).random((2, 6000)))
    show(fig)
    png = base64.b64decode(shown[0][0]["image/png"])
    assert int.from_bytes(png[16:20]) == figures.WIDTH * 192
    assert "image/svg+xml" not in shown[0][0]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "loss"}, "'loss'"),
        ({"name": "fig-Loss"}, "fig-Loss"),
        ({"name": "fig-"}, "fig-"),
        ({"alt": " "}, "alt"),
        ({"caption": ""}, "caption"),
        ({"alt": None}, "alt"),
    ],
)
def test_a_figure_without_name_caption_or_alt_is_refused(shown: list, given: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        show(draw(), **given)
    assert not shown


def test_band_is_the_mean_and_one_standard_deviation() -> None:
    _, ax = plt.subplots()
    line = figures.band(ax, [0, 1], [[1, 2], [3, 6]], color="#d97706", label="mean")
    assert line.get_ydata().tolist() == [2, 4]
    low, high = edges(ax)
    assert low == pytest.approx([2 - 2**0.5, 4 - 8**0.5])
    assert high == pytest.approx([2 + 2**0.5, 4 + 8**0.5])


def test_band_of_logarithms_is_a_factor() -> None:
    _, ax = plt.subplots()
    line = figures.band(ax, [0.0], [[1.0], [100.0]], log=True)
    assert line.get_ydata() == pytest.approx([10])
    low, high = edges(ax)
    assert low * high == pytest.approx([100])
    assert np.log10(high) == pytest.approx([1 + 2**0.5])


def test_band_of_one_run_is_its_line() -> None:
    _, ax = plt.subplots()
    figures.band(ax, [0, 1], [[1, 2]])
    low, high = edges(ax)
    assert low.tolist() == high.tolist() == [1, 2]


def edges(ax: plt.Axes) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper edge of the only band."""
    vertices = ax.collections[0].get_paths()[0].vertices
    xs = np.unique(vertices[:, 0])
    ends = [(vertices[vertices[:, 0] == x, 1].min(), vertices[vertices[:, 0] == x, 1].max()) for x in xs]
    return np.array(ends)[:, 0], np.array(ends)[:, 1]


@pytest.mark.parametrize("samples", [[1, 2], [[1, 2, 3]], np.empty((0, 2))])
def test_band_refuses_other_shapes(samples: Any) -> None:
    with pytest.raises(ValueError, match="shape"):
        figures.band(plt.subplots()[1], [0, 1], samples)


def test_band_refuses_logarithms_of_zero() -> None:
    with pytest.raises(ValueError, match=r"smallest is 0\.0"):
        figures.band(plt.subplots()[1], [0, 1], [[0, 1]], log=True)
