"""Equations as SVG, drawn by matplotlib at build time: a page needs neither JavaScript nor a host for them."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from io import StringIO
from typing import Any
from zlib import crc32

from docutils import nodes

POINTS = {"inline": 13, "block": 13}
"""Font sizes, near that of the text around an equation."""


@cache
def svg(tex: str, place: str) -> tuple[str, float]:
    """Return TeX that matplotlib's mathtext knows as an SVG element, and its depth below the base line [pt].

    `place` is `inline` or `block`, where fractions have their full size.

    Raises:
        ValueError: for TeX that mathtext does not know.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser

    words = tex if place == "inline" else tex.replace(r"\frac", r"\dfrac")
    text = f"${' '.join(words.split())}$"
    with rc_context({"mathtext.fontset": "stix", "svg.fonttype": "path", "svg.hashsalt": tex}):
        font = FontProperties(size=POINTS[place], math_fontfamily="stix")
        width, height, depth, _, _ = MathTextParser("path").parse(text, dpi=72, prop=font)
        figure = Figure(figsize=((width + 2) / 72, (height + 2) / 72))
        FigureCanvasSVG(figure)
        figure.text(1 / (width + 2), (depth + 1) / (height + 2), text, fontproperties=font, color="#000001")
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawn = out.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace("#000001", "currentColor")
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    unique = f"e{crc32(f'{place} {tex}'.encode()):x}"
    drawn = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{unique}-", drawn)
    return drawn.strip(), depth + 1


def _element(tex: str, place: str) -> str:
    drawn, depth = svg(tex, place)
    label = f'role="img" aria-label="{escape(tex)}" style="vertical-align: {-depth:.1f}pt"'
    return drawn.replace("<svg ", f'<svg class="equation" {label} ', 1)


def _inline(self: Any, node: nodes.Element) -> None:
    self.body.append(_element(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.Element) -> None:
    """A line of an equation is one of its lines on the page."""
    lines = [line for line in re.split(r"\\\\", node.astext()) if line.strip()]
    drawn = "".join(f'<div class="equation-line">{_element(line, "block")}</div>' for line in lines)
    self.body.append(f'<div class="equations">{drawn}</div>')
    raise nodes.SkipNode


INLINE = (_inline, None)
BLOCK = (_block, None)
"""How Sphinx's HTML builder visits and leaves an equation."""
