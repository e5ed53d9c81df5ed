# SPDX-License-Identifier: Apache-2.0
"""Formulas as MathML, which browsers draw by themselves: no script, and nothing to load."""

import html as entities
import re

from latex2mathml.converter import convert

_FOUND = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def with_formulas(html: str) -> str:
    """A page with its formulas drawn: `$…$` in a line, `$$…$$` on a line of their own."""
    return _FOUND.sub(lambda found: _drawn(found[1], entities.unescape(found[3]), found[2] == "["), html)


def _drawn(tag: str, formula: str, alone: bool) -> str:
    mathml = convert(formula.strip(), display="block" if alone else "inline")
    return f'<{tag} class="formula">{mathml}</{tag}>'
