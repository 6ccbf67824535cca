"""Equations as MathML, which browsers show by themselves: LaTeX is converted when the documentation is built, by
docutils."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

# docutils sets an index of an accented letter under the letter; in a group with something empty the letter takes it at
# its side.
ACCENTED = re.compile(r"(\\(?:bar|hat|tilde|widehat|widetilde|overline) *(?:\{[^{}]*\}|\\[A-Za-z]+|\w))(?=[_^])")


def mathml(latex: str, display: bool = False) -> str:
    """A formula as MathML, inline or on lines of its own.

    Raises:
        MathError: LaTeX that docutils cannot convert.
    """
    return str(tex2mathml(ACCENTED.sub(r"{\1{}}", latex), as_block=display))


def visit(translator: Any, node: nodes.math | nodes.math_block) -> None:
    """Write a formula. One that cannot be converted, or has a label, which nothing here would show, is a warning and so
    fails the build."""
    display = isinstance(node, nodes.math_block)
    try:
        if node.get("label"):
            raise MathError("Equations have no labels.")
        shown = mathml(node.astext(), display)
    except MathError as error:
        logger.warning("%s In: %s", error, node.astext(), location=node)
        shown = f"<code>{translator.encode(node.astext())}</code>"
    translator.body.append(f'<div class="math">{shown}</div>\n' if display else shown)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit, None), (visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
