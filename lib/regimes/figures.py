"""How the book's figures look, and how a figure reaches the page with its name, caption and alt text."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from regimes._display import in_ipython, show_bundle

WIDTH = 6.0
"""The width of every figure in inches; text then has one size in the whole book and can be read at 330 px."""

# Chosen for the largest distance between any two as each kind of dichromat sees them; contrast 3 on white.
COLORS = ("#005a9c", "#d97706", "#009e73", "#882255", "#6b5800", "#000000")
LINES = ("-", (0, (6, 2)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1.5)), (0, (10, 2)))

_LARGEST_SVG = 400_000
_NAME = re.compile(r"fig-[a-z0-9]+(-[a-z0-9]+)*")
_STYLE = {
    "axes.prop_cycle": cycler(color=COLORS) + cycler(linestyle=LINES),
    "axes.edgecolor": "#444444",
    "axes.linewidth": 0.8,
    "axes.titlesize": 12,
    "axes.labelsize": 12,
    "figure.constrained_layout.use": True,
    "figure.figsize": (WIDTH, 3.7),
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11.5,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "legend.fontsize": 11,
    "legend.handlelength": 2.4,
    "lines.linewidth": 1.9,
    "lines.markersize": 5,
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "regimes",
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
}


def use_style() -> None:
    """Makes every later figure look like the book's: call it once, in a chapter's first cells."""
    sns.set_theme(context="notebook", style="whitegrid", palette=COLORS, rc=_STYLE)


def palette(n: int, *, ordered: bool = False) -> list[str]:
    """`n` colours as hex strings: the book's cycle, or shades from dark to light for values with an order.

    Raises:
        ValueError: `n` is below 1, or above 6 for colours without an order (no reader tells more apart).
    """
    if n < 1 or (n > len(COLORS) and not ordered):
        raise ValueError(f"palette({n}): from 1 to {len(COLORS)} colours; ordered=True gives any number")
    # The lightest end of viridis would vanish on white.
    shades = (
        sns.blend_palette(mpl.colormaps["viridis"](np.linspace(0, 0.75, 16)), n) if ordered else COLORS[:n]
    )
    return [mpl.colors.to_hex(color) for color in shades]


def band(ax: Axes, x: ArrayLike, samples: ArrayLike, *, log: bool = False, **line: Any) -> Line2D:
    """Draws the mean of `samples` over its first axis and a band of one standard deviation on either side.

    `x` has shape (n,), `samples` (runs, n). With `log` both are taken of the logarithms (geometric mean, and
    a factor on either side), as fits an axis with a logarithmic scale. Further arguments go to the line.

    Raises:
        ValueError: the shapes do not agree, or `log` with a value that is not positive.
    """
    x, samples = np.asarray(x, dtype=float), np.asarray(samples, dtype=float)
    if samples.ndim != 2 or x.shape != samples.shape[1:] or not len(samples):
        raise ValueError(f"band: samples of shape {samples.shape} are not (runs, n) for x of shape {x.shape}")
    if log and not (samples > 0).all():
        raise ValueError(f"band: log=True needs positive samples; the smallest is {samples.min()}")
    values = np.log(samples) if log else samples
    middle, spread = values.mean(0), values.std(0, ddof=1 if len(values) > 1 else 0)
    back = np.exp if log else np.asarray
    (drawn,) = ax.plot(x, back(middle), **line)
    ax.fill_between(
        x, back(middle - spread), back(middle + spread), color=drawn.get_color(), alpha=0.18, linewidth=0
    )
    return drawn


def show(fig: Figure, name: str, *, caption: str, alt: str) -> None:
    """Shows a figure, once, and closes it; one call a cell.

    `name` is the label that `{numref}` refers to. `caption` is Markdown and may hold formulas and `{claim}`;
    `alt` says in plain words what the figure shows, for those who do not see it. Both may be computed.

    Raises:
        ValueError: `name` is not of the form fig-some-words, or caption or alt say nothing.
    """
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ValueError(
            f"the name {name!r} is not of the form fig-some-words (small letters, digits, hyphens)"
        )
    caption, alt = _text(name, "caption", caption), _text(name, "alt", alt)
    data = _render(fig) | {"text/plain": alt}
    plt.close(fig)
    show_bundle(data, {"regimes": {"name": name, "caption": caption, "alt": alt}})
    if in_ipython():
        show_bundle({"text/markdown": caption, "text/plain": caption}, {"regimes": {"caption_of": name}})


def _text(name: str, what: str, text: str) -> str:
    if not (isinstance(text, str) and text.strip()):
        raise ValueError(f"{name}: {what} is {text!r}; say what the figure shows")
    return " ".join(text.split())


def _render(fig: Figure) -> dict[str, Any]:
    """The figure as SVG without a date, or as PNG at twice the screen's resolution where the SVG is large."""
    svg = io.StringIO()
    fig.savefig(svg, format="svg", metadata={"Date": None})
    if len(svg.getvalue()) <= _LARGEST_SVG:
        return {"image/svg+xml": svg.getvalue()}
    png = io.BytesIO()
    fig.savefig(png, format="png", dpi=192, metadata={"Software": None})
    return {"image/png": base64.b64encode(png.getvalue()).decode()}
