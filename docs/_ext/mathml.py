"""Formulas as MathML, which browsers draw without scripts or fonts from elsewhere."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_LOGGER = logging.getLogger(__name__)


def _mathml(node: nodes.math | nodes.math_block, *, block: bool) -> str:
    try:
        return tex2mathml(node.astext().strip().replace(r"\dots", r"\ldots"), as_block=block)
    except MathError as error:
        _LOGGER.warning("%s: %s", error, node.astext(), location=node)
        return html.escape(node.astext())


def _visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(f'<span class="math">{_mathml(node, block=False)}</span>')
    raise nodes.SkipNode


def _visit_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_mathml(node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
