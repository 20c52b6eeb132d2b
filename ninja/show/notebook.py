"""Small pictures of lattices for notebooks."""

from __future__ import annotations

from html import escape

import numpy as np

from ninja.errors import NinjaError
from ninja.lattice import Lattice
from ninja.show.drawing import BEST, Drawing, ShowOptions, draw

MAX_ARCS = 60  # maximum number of arcs in a picture, which cannot be zoomed
LARGEST = 200_000  # maximum number of arcs of a lattice that can be drawn without a noticeable delay
LANE, MARGIN = 22.0, 24.0  # pixels
BLUE, ORANGE = "#3d7ab8", "#e08a1e"  # visible on white and on black


def picture(lattice: Lattice, options: ShowOptions | None = None) -> str:
    """Return a summary and a small picture of a lattice as HTML without scripts.

    The picture is omitted if the lattice has more than 200,000 arcs or no complete path. By default, costs are not
    scaled, and up to 60 arcs are drawn.
    """
    about = f"<code>{escape(repr(lattice))}</code>"
    if lattice.num_arcs > LARGEST:
        return f"<div>{about}: too large for a picture; prune it first</div>"
    try:
        drawing = draw(lattice, None, options or ShowOptions(max_arcs=MAX_ARCS))
    except NinjaError as error:
        return f"<div>{about}: {escape(str(error))}</div>"
    best = escape(" ".join(drawing.spell(drawing.best.words)))
    count = len(drawing.arcs)
    shown = "" if count == lattice.num_arcs else f"; the {count:,} best of {lattice.num_arcs:,} arcs are drawn"
    return (
        f"<div>{about}<br>best path (acoustic scale {drawing.options.scales.acoustic:g}): "
        f"<b>{best or '(no words)'}</b>{shown}"
        f'<div style="overflow:auto;max-height:420px">{_svg(drawing)}</div></div>'
    )


def _svg(drawing: Drawing) -> str:
    data = drawing.as_dict()
    state, arc, words = data["state"], data["arc"], data["words"]
    lanes = [*state["lane"], *arc["lane"]]
    top = min(lanes, default=0)
    width = max(state["x"], default=0.0) + 2 * MARGIN
    height = (max(lanes, default=0) - top) * LANE + 2 * MARGIN

    def x(number: int) -> float:
        return round(float(state["x"][number]) + MARGIN, 1)

    def y(lane: int) -> float:
        return (lane - top) * LANE + MARGIN

    lines, labels = [], []
    for place in np.argsort(arc["posterior"], kind="stable").tolist():  # draw probable arcs on top
        begin, end, lane = x(arc["src"][place]), x(arc["dst"][place]), y(arc["lane"][place])
        first, last = y(state["lane"][arc["src"][place]]), y(state["lane"][arc["dst"][place]])
        bend, middle = min(16.0, 0.4 * (end - begin)), round((begin + end) / 2, 1)
        share = arc["posterior"][place] ** 0.4
        colour = ORANGE if arc["marks"][place] & BEST else BLUE
        word = escape(words[arc["word"][place]])
        graph, acoustic, posterior = (arc[name][place] for name in ("graph", "acoustic", "posterior"))
        figures = f"{word or 'ε'}: posterior {posterior:.3g}, graph {graph:.4g}, acoustic {acoustic:.4g}"
        path = f"M{begin} {first}Q{begin + bend:.1f} {lane} {middle} {lane}Q{end - bend:.1f} {lane} {end} {last}"
        lines.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-opacity="{0.3 + 0.7 * share:.2f}" '
            f'stroke-width="{1 + 2.5 * share:.1f}"><title>{figures}</title></path>'
        )
        if word:
            labels.append(f'<text x="{middle}" y="{lane - 5}">{word}</text>')
    dots = "".join(
        f'<circle cx="{x(place)}" cy="{y(lane)}" r="{2.5 if final is None else 4}"/>'
        for place, (lane, final) in enumerate(zip(state["lane"], state["finalGraph"], strict=True))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" fill="currentColor" '
        f'font-family="sans-serif" font-size="12" text-anchor="middle">{"".join(lines)}{dots}{"".join(labels)}</svg>'
    )
