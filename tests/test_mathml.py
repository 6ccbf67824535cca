"""The equations of the documentation become MathML; run where docutils is installed."""

import re
from pathlib import Path

import pytest

pytest.importorskip("docutils")
pytest.importorskip("sphinx")

from docutils.utils.math import MathError
from mathml import mathml

PAGE = Path(__file__).parent.parent / "docs/equations.md"


def test_an_index_stays_beside_an_accented_letter() -> None:
    assert re.match(r"<math [^>]*>\s*<msup>", mathml(r"x^2"))
    assert re.match(r'<math [^>]*display="block">\s*<mfrac>', mathml(r"\frac{a}{b}", display=True))
    assert "<munderover>" not in mathml(r"\hat F_k + \tilde{\theta}_i^2")


def test_what_cannot_be_converted_is_an_error() -> None:
    with pytest.raises(MathError):
        mathml(r"\unheardof{x}")


def test_every_equation_is_converted() -> None:
    equations = re.findall(r"^\$\$\n(.*?)^\$\$$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(equations) > 10
    for equation in equations:
        mathml(equation, display=True)
