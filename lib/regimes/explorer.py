"""A figure with sliders: computed live where a kernel runs, and moving on a page without one."""

from __future__ import annotations

import html
import io
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from regimes._display import in_ipython
from regimes._frames import ALPHABET, UNIT, Frames, to_json

_LARGEST = 400_000
_WIDE = {"width": "100%", "max_width": "700px"}
_WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class Slider:
    """One control of an explorer.

    `values` are the stops on a page without a kernel, strictly ascending; with a kernel every number between
    the ends can be chosen (whole numbers only where all stops are ints). `label` is plain text, `format`
    writes a value, and `log` spaces the live slider by ratios.

    Raises:
        ValueError: fewer than two stops, stops that do not ascend or are not finite, an empty label, or `log`
            with a stop that is not positive.
    """

    values: Sequence[float]
    label: str
    format: str = "{:.3g}"
    log: bool = False

    def __post_init__(self) -> None:
        stops = [value.item() if hasattr(value, "item") else value for value in self.values]
        object.__setattr__(self, "values", tuple(stops))
        if len(stops) < 2 or not all(map(math.isfinite, stops)):
            raise ValueError(f"slider {self.label!r}: two or more finite values are needed, not {stops}")
        if any(low >= high for low, high in itertools.pairwise(stops)):
            raise ValueError(f"slider {self.label!r}: the values must ascend; got {stops}")
        if self.log and stops[0] <= 0:
            raise ValueError(
                f"slider {self.label!r}: log=True needs positive values; the first is {stops[0]}"
            )
        if not self.label.strip():
            raise ValueError("a slider needs a label")

    @property
    def middle(self) -> int:
        """The index of the stop at which an explorer starts."""
        return len(self.values) // 2

    def write(self, value: float) -> str:
        """The value as a reader sees it."""
        return self.format.format(value).replace("-", "−")


class Explorer:
    """A matplotlib figure that `update(**values)` moves, one keyword for each slider.

    `update` sets the points of lines (`Line2D.set_data`) and the words or place of texts (`Text.set_text`);
    all else stands still, the axes' limits too. `label` names the explorer on its page; `alt` says what is
    seen, as a text or as a function of the values. The frames are computed at once, the figure is closed.

    Example:
        .. code-block:: python

            fig, ax = plt.subplots()
            w = np.linspace(-2, 2, 200)
            (curve,) = ax.plot(w, 0 * w)
            ax.set(xlim=(-2, 2), ylim=(0, 3), xlabel="$w$", ylabel="$q_k(w)$")


            def update(k):
                curve.set_ydata(Hypentropy(k).value(w))


            Explorer(
                fig,
                update,
                {"k": Slider(np.logspace(-3, 1, 25), "sharpness k", log=True)},
                label="The potential between the norms",
                alt=lambda k: f"The potential at k = {k:.3g}: {'a parabola' if k > 1 else 'close to a V'}.",
            )

    Raises:
        ValueError: no slider, an empty label or alt, something that can't move did, or frames that weigh more
            than 400 kB (take fewer stops or points).
    """

    def __init__(
        self,
        figure: Figure,
        update: Callable[..., object],
        sliders: dict[str, Slider],
        *,
        label: str,
        alt: str | Callable[..., str],
    ) -> None:
        self._slug = "explorer-" + re.sub("[^a-z0-9]+", "-", label.lower()).strip("-")
        if self._slug == "explorer-" or not sliders:
            raise ValueError(
                f"explorer {label!r}: a label with a word in it and at least one slider are needed"
            )
        self.label = label
        self._figure, self._update, self._sliders, self._alt = figure, update, sliders, alt
        plt.close(figure)  # or the notebook would show it a second time
        self._html = self._static()
        if len(self._html) > _LARGEST:
            raise ValueError(
                f"explorer {label!r}: its frames weigh {len(self._html) / 1000:.0f} kB, more than "
                f"{_LARGEST // 1000}; take fewer stops or fewer points a line"
            )

    def __repr__(self) -> str:
        return f"{self.label}: {self._describe(self._middle())}"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data = {"text/plain": repr(self), "text/html": self._html}
        if in_ipython():
            data[_WIDGET] = self.widget()._repr_mimebundle_()[_WIDGET]
        return data, {"regimes": {"explorer": self.label}}

    def _middle(self) -> dict[str, float]:
        return {name: slider.values[slider.middle] for name, slider in self._sliders.items()}

    def _describe(self, values: dict[str, float]) -> str:
        text = self._alt(**values) if callable(self._alt) else self._alt
        if not (isinstance(text, str) and text.strip()):
            raise ValueError(f"explorer {self.label!r}: alt is {text!r} with {values}; say what is seen")
        return " ".join(text.split())

    def _static(self) -> str:
        stops = itertools.product(*(slider.values for slider in self._sliders.values()))
        grid = [dict(zip(self._sliders, values, strict=True)) for values in stops]
        frames = Frames(self._figure, self._update, grid)
        described = [self._describe(values) for values in grid]
        alts = list(dict.fromkeys(described))
        self._update(**self._middle())
        data = {
            "alphabet": ALPHABET,
            "unit": UNIT,
            "sizes": [len(slider.values) for slider in self._sliders.values()],
            "values": [[slider.write(value) for value in slider.values] for slider in self._sliders.values()],
            "alts": alts,
            "alt": [alts.index(text) for text in described],
            **frames.data(),
        }
        svg = frames.svg(self._slug, self._describe(self._middle()))
        controls = "".join(
            _control(slider, f"{self._slug}-s{i}") for i, slider in enumerate(self._sliders.values())
        )
        still = ", ".join(f"{s.label} = {s.write(s.values[s.middle])}" for s in self._sliders.values())
        package = resources.files("regimes")
        return (
            f'<div class="regimes-explorer" data-explorer="{self._slug}" role="group" '
            f'aria-label="{html.escape(self.label)}">'
            f"<style>{(package / 'explorer.css').read_text(encoding='utf-8')}</style>{svg}"
            f'<p class="regimes-explorer-still">Drawn at {html.escape(still)}.</p>'
            f'<div class="regimes-explorer-controls" hidden>{controls}</div>'
            f'<script type="application/json">{to_json(data)}</script></div>'
            f"<script>{(package / 'explorer.js').read_text(encoding='utf-8')}</script>"
        )

    def widget(self) -> Any:
        """The live face: an ipywidgets box with the picture, its description and the sliders."""
        import ipywidgets

        controls = {name: _live(slider) for name, slider in self._sliders.items()}
        picture = ipywidgets.Image(format="png", layout=_WIDE)
        told = ipywidgets.HTML()

        def draw(_: object = None) -> None:
            values = {name: control.value for name, control in controls.items()}
            self._update(**values)
            png = io.BytesIO()
            self._figure.savefig(png, format="png", dpi=160)
            picture.value = png.getvalue()
            told.value = f'<span role="status">{html.escape(self._describe(values))}</span>'

        for control in controls.values():
            control.observe(draw, "value")
        draw()
        return ipywidgets.VBox([picture, *controls.values(), told])


def _control(slider: Slider, id: str) -> str:
    shown = html.escape(slider.write(slider.values[slider.middle]))
    return (
        f'<div><div class="regimes-explorer-name"><label for="{id}">{html.escape(slider.label)}</label>'
        f'<output for="{id}" aria-hidden="true">{shown}</output></div>'
        f'<input type="range" id="{id}" min="0" max="{len(slider.values) - 1}" step="1" '
        f'value="{slider.middle}" autocomplete="off" aria-valuetext="{shown}"></div>'
    )


def _live(slider: Slider) -> Any:
    import ipywidgets

    low, high, value = slider.values[0], slider.values[-1], slider.values[slider.middle]
    options: dict[str, Any] = {
        "value": value,
        "description": slider.label,
        "style": {"description_width": "initial"},
        "layout": _WIDE,
    }
    if slider.log:
        return ipywidgets.FloatLogSlider(
            base=10, min=math.log10(low), max=math.log10(high), step=math.log10(high / low) / 400, **options
        )
    if all(isinstance(stop, int) for stop in slider.values):
        return ipywidgets.IntSlider(min=low, max=high, **options)
    return ipywidgets.FloatSlider(min=low, max=high, step=(high - low) / 400, readout_format=".3g", **options)
