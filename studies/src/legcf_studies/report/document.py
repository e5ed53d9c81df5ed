# SPDX-License-Identifier: Apache-2.0
"""Write a page of headings, text, tables, pictures and foldable parts as Markdown with files or as one HTML file."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from legcf.core.files import written_whole


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """Hold a paragraph; `code` in backticks and **bold** are understood."""

    text: str


@dataclass(frozen=True)
class Grid:
    """Hold a table. In a cell, **…** is bold; the first column is text, the others are numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    spans: Sequence[tuple[str, int]] = ()
    """A row above the header, as (text, columns); Markdown has none, so it puts the text before each name."""


@dataclass(frozen=True)
class Picture:
    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Listing:
    text: str


@dataclass(frozen=True)
class Folded:
    summary: str
    blocks: Sequence[Element] = ()


Element = Heading | Text | Grid | Picture | Listing | Folded


def write_markdown(path: Path, blocks: Sequence[Element], pictures: str = "plots") -> None:
    """Write the page, and its pictures in a folder beside it."""
    for picture in _pictures(blocks):
        with written_whole(path.parent / pictures / f"{picture.name}.svg") as temporary:
            temporary.write_text(picture.svg, encoding="utf-8")
    with written_whole(path) as temporary:
        temporary.write_text("\n\n".join(_markdown(block, pictures) for block in blocks) + "\n", encoding="utf-8")


def write_html(path: Path, title: str, blocks: Sequence[Element]) -> None:
    """Write the page in one file that needs nothing else."""
    body = "\n".join(_html(block) for block in blocks)
    with written_whole(path) as temporary:
        temporary.write_text(_PAGE.format(title=html.escape(title), style=_STYLE, body=body), encoding="utf-8")


def _pictures(blocks: Sequence[Element]) -> Iterator[Picture]:
    for block in blocks:
        if isinstance(block, Picture):
            yield block
        elif isinstance(block, Folded):
            yield from _pictures(block.blocks)


def _markdown(block: Element, pictures: str) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Text(text):
            return text
        case Listing(text):
            return f"```\n{text}\n```"
        case Picture(name, _, caption):
            return f"![{caption}]({pictures}/{name}.svg)\n\n*{caption}*"
        case Folded(summary, inner):
            content = "\n\n".join(_markdown(one, pictures) for one in inner)
            return f"<details><summary>{html.escape(summary)}</summary>\n\n{content}\n\n</details>"
        case Grid(header, rows, spans):
            above = [text for text, count in spans for _ in range(count)] or [""] * len(header)
            names = [f"{span} {name}".strip() for span, name in zip(above, header, strict=True)]
            lines = [names, ["---"] + ["---:"] * (len(names) - 1), *rows]
            return "\n".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |" for line in lines)


def _html(block: Element) -> str:
    match block:
        case Heading(text, level):
            return f'<h{level} id="{_anchor(text)}">{_inline(text)}</h{level}>'
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Listing(text):
            return f"<pre>{html.escape(text)}</pre>"
        case Picture(_, svg, caption):
            return f"<figure>{_own_ids(svg, block.name)}<figcaption>{_inline(caption)}</figcaption></figure>"
        case Folded(summary, inner):
            return f"<details><summary>{_inline(summary)}</summary>{''.join(_html(one) for one in inner)}</details>"
        case Grid(header, rows, spans):
            above = "".join(f'<th colspan="{count}">{_inline(text)}</th>' for text, count in spans)
            head = (f"<tr>{above}</tr>" if above else "") + _html_row("th", header)
            body = "".join(_html_row("td", row) for row in rows)
            return f'<div class="wide"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_inline(cell)}</{tag}>" for cell in cells) + "</tr>"


def _inline(text: str) -> str:
    safe = html.escape(text, quote=False)
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", safe)


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _own_ids(svg: str, prefix: str) -> str:
    """Return an SVG to be put into a page: without its XML head, and with ids that no other picture has."""
    inner = svg[svg.index("<svg") :]
    inner = re.sub(r'\bid="', f'id="{prefix}-', inner)
    inner = re.sub(r'((?:xlink:)?href)="#', rf'\1="#{prefix}-', inner)
    return re.sub(r"url\(#", f"url(#{prefix}-", inner)


_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:2rem auto;max-width:86rem;padding:0 1rem}
h1{font-size:1.7rem}h2{font-size:1.3rem;margin-top:2.5rem;border-bottom:1px solid #bbb;padding-bottom:.2rem}
h3{font-size:1.05rem;margin-top:1.8rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums;margin:.6rem 0}
th,td{padding:.22rem .55rem;text-align:right;white-space:nowrap;border-bottom:1px solid #ddd}
th{border-bottom:1px solid #555;font-weight:600}thead th[colspan]{text-align:center}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:#fff}

figure{margin:1rem 0}figure svg{max-width:100%;height:auto}
figcaption{color:#444;font-size:.88rem}
pre{background:#f4f4f4;padding:.6rem;overflow-x:auto;font-size:.8rem}code{background:#f4f4f4;padding:0 .2rem}
details{margin:.6rem 0}summary{cursor:pointer}
@media print{body{max-width:none}details>*{display:block}}
"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body>
{body}
</body></html>
"""
