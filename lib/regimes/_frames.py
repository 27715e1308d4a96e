"""The static face of an explorer: a figure as one SVG, and what moves in it over a grid of values.

Lines and texts move; everything else must stand still. Coordinates are kept in tenths of a point, as the
second differences along each line, a character or two each.
"""

from __future__ import annotations

import copy
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from matplotlib.cbook import STEP_LOOKUP_MAP
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text

UNIT = 0.1  # points
GAP = "|"
# Printable, and harmless inside JSON, HTML and scripts; the first half ends a number, the second goes on.
ALPHABET = "".join(chr(code) for code in range(35, 127) if chr(code) not in "&<>\\`|")[:86]
_BASE = len(ALPHABET) // 2
_FARTHEST = 100_000
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"


class Frames:
    """What moves in `figure` when `update` is called with each setting of `grid`, in that order.

    Raises:
        ValueError: something other than a line's points or a text moves.
    """

    def __init__(
        self, figure: Figure, update: Callable[..., object], grid: Iterable[Mapping[str, Any]]
    ) -> None:
        figure.draw_without_rendering()
        # The layout was settled by that drawing; a frame must not move the axes.
        figure.set_layout_engine("none")
        self._figure = figure
        lines, texts = figure.findobj(Line2D), figure.findobj(Text)
        still = _fixed(figure)
        tracks: dict[Any, list[Any]] = {artist: [] for artist in [*lines, *texts]}
        for values in grid:
            update(**values)
            if (now := _fixed(figure)) != still:
                raise ValueError(f"with {dict(values)}, update changed {_difference(still, now)}; {_ADVICE}")
            for line in lines:
                tracks[line].append(_points(line))
            for text in texts:
                tracks[text].append(_content(text))
        self.lines = {line: tracks[line] for line in lines if _moves(tracks[line])}
        self.texts = {text: tracks[text] for text in texts if _moves(tracks[text])}
        for track in self.texts.values():
            _demand_plain(track)

    def data(self) -> dict[str, Any]:
        """The frames for the script: unique states and, frame by frame, which of them is seen."""
        lines = {f"l{i}": _line_data(track) for i, track in enumerate(self.lines.values())}
        texts = {f"t{i}": _text_data(track) for i, track in enumerate(self.texts.values())}
        return {"lines": lines, "texts": texts}

    def svg(self, prefix: str, label: str) -> str:
        """The figure as it now stands, for a page; what moves has ids such as `prefix-l0` and `prefix-t0`."""
        names = {line: f"l{i}" for i, line in enumerate(self.lines)}
        names |= {text: f"t{i}" for i, text in enumerate(self.texts)}
        now = {line: (line.get_data(), _points(line)) for line in self.lines}
        for artist, name in names.items():
            artist.set_gid(name)
        for line in self.lines:
            # One point in sight: matplotlib writes nothing for an empty line or for marks out of sight.
            line.set_data(*_center(line)[:, None])
        blank = [text for text in self.texts if not text.get_text()]
        for text in blank:
            text.set_text(" ")  # nor anything for no letters
        root = _draw(self._figure, "path")
        for line, (data, points) in now.items():
            line.set_data(*data)
            _set_points(_group(root, names[line]), points)
        if self.texts:
            # Only letters that change are written as text: all others keep the book's own font.
            other = _draw(self._figure, "none")
            for text in self.texts:
                group = _group(root, names[text])
                # Letters are defined where they are first drawn, and later texts use them too.
                root.extend(list(group.iter(f"{{{_SVG}}}defs")))
                group[:] = list(_group(other, names[text]))
        for text in blank:
            text.set_text("")
        return _for_page(root, prefix, label)


_ADVICE = "an explorer moves points of lines and texts only, and its axes keep their limits"


def _fixed(figure: Figure) -> dict[str, Any]:
    """What must not move: the number of artists, limits, and the shapes of patches and collections."""
    state: dict[str, Any] = {}
    for number, axes in enumerate(figure.axes):
        state[f"the limits of axes {number}"] = (axes.get_xlim(), axes.get_ylim())
        state[f"the number of artists in axes {number}"] = len(axes.get_children())
        for kind, artists in (
            ("collection", axes.collections),
            ("patch", axes.patches),
            ("image", axes.images),
        ):
            for index, artist in enumerate(artists):
                state[f"{kind} {index} of axes {number} ({type(artist).__name__})"] = _shape(artist)
    return state


def _shape(artist: Any) -> tuple[bytes, ...]:
    if hasattr(artist, "get_paths"):
        parts = [artist.get_offsets(), *(path.vertices for path in artist.get_paths())]
    elif hasattr(artist, "get_path"):
        parts = [artist.get_path().vertices, artist.get_transform().frozen().get_matrix()]
    else:
        parts = [artist.get_array()]
    return tuple(np.ma.filled(part, np.nan).tobytes() for part in parts)


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return next(name for name in [*before, *after] if before.get(name) != after.get(name))


def _points(line: Line2D) -> np.ndarray:
    """Where the line's points are, in units from the upper left corner, shape (points, 2); NaN is a gap."""
    xy = line.get_xydata().astype(float)
    step = STEP_LOOKUP_MAP[line.get_drawstyle()]
    if step is not STEP_LOOKUP_MAP["default"]:
        xy = np.column_stack(step(*xy.T))
    with np.errstate(invalid="ignore"):
        return _units(line.figure, line.get_transform().transform(xy))


def _content(text: Text) -> tuple[str, float, float]:
    if isinstance(text, Annotation):
        return text.get_text(), 0.0, 0.0
    x, y = _units(text.figure, text.get_transform().transform(text.get_unitless_position()))
    return text.get_text(), float(x), float(y)


def _units(figure: Figure, xy: np.ndarray) -> np.ndarray:
    points = np.asarray(xy) * 72 / figure.dpi
    flipped = points * [1, -1] + [0, figure.get_figheight() * 72]
    return np.clip(np.round(flipped / UNIT), -_FARTHEST, _FARTHEST)


def _moves(track: Sequence[Any]) -> bool:
    if isinstance(track[0], tuple):
        return any(state != track[0] for state in track)
    return any(not np.array_equal(state, track[0], equal_nan=True) for state in track)


def _demand_plain(track: Sequence[tuple[str, float, float]]) -> None:
    for text, *_ in track:
        if "$" in text or "\n" in text:
            raise ValueError(f"the changing text {text!r} holds a formula or a line break; use plain letters")


def _line_data(track: Sequence[np.ndarray]) -> dict[str, Any]:
    xs, x = _unique(encode(points[:, 0]) for points in track)
    ys, y = _unique(encode(points[:, 1]) for points in track)
    return {"xs": xs, "x": x, "ys": ys, "y": y}


def _text_data(track: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    states, at = _unique(track)
    return {"states": [[text, x * UNIT, y * UNIT] for text, x, y in states], "at": at}


def _unique(items: Iterable[Any]) -> tuple[list[Any], list[int] | int]:
    """The different items, and which of them stands where; one number where that is always the same."""
    places: dict[Any, int] = {}
    order = [places.setdefault(item, len(places)) for item in items]
    return list(places), order if len(places) > 1 else 0


def encode(values: np.ndarray) -> str:
    """Whole numbers as characters: second differences, signs folded in, low digits first; NaN is a gap."""
    written, last, slope = [], 0, 0
    for value in values:
        if np.isnan(value):
            written.append(GAP)
            continue
        step = int(value) - last
        written.append(_digits(step - slope))
        last, slope = int(value), step
    return "".join(written)


def _digits(number: int) -> str:
    number = 2 * number if number >= 0 else -2 * number - 1
    text = ""
    while number >= _BASE:
        text += ALPHABET[_BASE + number % _BASE]
        number //= _BASE
    return text + ALPHABET[number]


def _draw(figure: Figure, letters: str) -> ElementTree.Element:
    page = io.StringIO()
    with mpl.rc_context({"svg.fonttype": letters, "svg.hashsalt": "regimes", "path.simplify": False}):
        figure.savefig(page, format="svg", metadata={"Date": None})
    return ElementTree.fromstring(page.getvalue())


def _group(root: ElementTree.Element, id: str) -> ElementTree.Element:
    found = root.find(f".//{{{_SVG}}}g[@id='{id}']")
    if found is None:
        raise ValueError("a line or text that moves is invisible where the explorer starts")
    return found


def _center(line: Line2D) -> np.ndarray:
    """The middle of the line's axes, or of the figure, in the line's own coordinates."""
    box = (line.axes or line.figure).bbox
    return line.get_transform().inverted().transform([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2])


def _set_points(group: ElementTree.Element, points: np.ndarray) -> None:
    """Draws the line through these points, as the script does later."""
    seen = ~np.isnan(points).any(1)
    places = [(f"{x * UNIT:.1f}", f"{y * UNIT:.1f}") for x, y in points]
    path = group.find(f"{{{_SVG}}}path")
    if path is not None:
        starts = seen & ~np.r_[False, seen[:-1]]
        path.set("d", "".join("ML"[not starts[i]] + ",".join(places[i]) for i in np.flatnonzero(seen)))
    for holder in group.findall(f"{{{_SVG}}}g"):
        (mark,) = holder
        holder[:] = [mark, *(copy.deepcopy(mark) for _ in range(seen.sum() - 1))]
        for drawn, i in zip(holder, np.flatnonzero(seen), strict=False):
            drawn.attrib |= {"x": places[i][0], "y": places[i][1]}
        if not seen.any():
            # Stays as the pattern for later ones.
            mark.set("style", mark.get("style", "") + "; display: none")


def _for_page(root: ElementTree.Element, prefix: str, label: str) -> str:
    for parent in list(root.iter()):
        for child in list(parent):
            # Its style would reach every other drawing of the page.
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
        for name, value in parent.attrib.items():
            if name == "id":
                parent.set(name, f"{prefix}-{value}")
            elif name == f"{{{_XLINK}}}href" and value.startswith("#"):
                parent.set(name, f"#{prefix}-{value[1:]}")
            elif "url(#" in value:
                parent.set(name, value.replace("url(#", f"url(#{prefix}-"))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": label, "stroke-linejoin": "round", "stroke-linecap": "butt"}
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return re.sub(r"\s*\n\s*", "\n", ElementTree.tostring(root, encoding="unicode"))


def to_json(data: object) -> str:
    """Compact JSON that may stand inside a script element."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
