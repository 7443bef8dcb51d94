"""Writes a tree of HTML, or of trafilatura's own tags, as Markdown.

Owns which tags are blocks and how each is written: headings, paragraphs, nested lists, tables, code, quotes.
Links are written as their text and collected beside it; pictures are left out.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

MAX_DEPTH = 150
"""Deeper elements are written as plain text, so that a hostile page cannot exhaust the stack."""
MAX_LINKS = 200
MAX_COLUMNS = 50
BREAK = "\x1e"
"""Stands for `br` until a paragraph is put together; control characters of a page never come this far."""
_SPACE = re.compile(r"[ \t\r\n\f\v\u00a0\u2028\u2029]+")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_STRONG = frozenset({"b", "strong"})
_EMPHASIS = frozenset({"i", "em", "cite"})
_RENDITIONS = {"#b": "**", "#i": "*", "#t": "`"}
_LISTS = frozenset({"ul", "ol", "list", "menu", "dl"})
_ITEMS = frozenset({"li", "item", "dt", "dd"})
_ROWS = frozenset({"tr", "row"})
_CELLS = frozenset({"td", "th", "cell"})
_QUOTES = frozenset({"blockquote", "quote"})
_BREAKS = frozenset({"br", "lb"})
_LINKS = frozenset({"a", "ref"})
SKIPPED = frozenset(
    [
        "script",
        "style",
        "noscript",
        "template",
        "svg",
        "math",
        "iframe",
        "object",
        "embed",
        "canvas",
        "audio",
        "video",
        "img",
        "graphic",
        "picture",
        "source",
        "input",
        "select",
        "textarea",
        "button",
        "datalist",
        "option",
        "link",
        "meta",
        "title",
        "map",
        "area",
        "dialog",
    ]
)
_BLOCKS = (
    frozenset(
        [
            "p",
            "div",
            "section",
            "article",
            "main",
            "body",
            "html",
            "header",
            "footer",
            "nav",
            "aside",
            "figure",
            "figcaption",
            "details",
            "summary",
            "form",
            "fieldset",
            "address",
            "hgroup",
            "center",
            "table",
            "thead",
            "tbody",
            "tfoot",
            "caption",
            "pre",
            "hr",
            "dd",
            "dt",
            "td",
            "th",
            "tr",
            "li",
            "blockquote",
            "quote",
            "head",
            "ab",
            "list",
            "item",
            "row",
            "cell",
            "done",
            "doc",
            "post",
        ]
    )
    | _LISTS
    | frozenset(_HEADINGS)
)


class MarkdownWriter:
    """Writes trees of one page; `links` are the addresses met, with their texts."""

    def __init__(self, base: str = "") -> None:
        self._base = base
        self.links: dict[str, str] = {}

    def write(self, root: Any) -> str:
        return "\n\n".join(self._blocks(root, 0)).strip()

    def _blocks(self, element: Any, depth: int) -> list[str]:
        """The blocks inside an element. Text between blocks becomes paragraphs."""
        found: list[str] = []
        line: list[str] = [element.text or ""]

        def end_line() -> None:
            if text := _tidy("".join(line)):
                found.append(text)
            line.clear()

        for child in element:
            if isinstance(child.tag, str) and child.tag not in SKIPPED:
                if self._is_block(child):
                    end_line()
                    found += self._block(child, depth + 1)
                else:
                    line.append(self._inline(child, depth + 1))
            line.append(child.tail or "")
        end_line()
        return found

    def _is_block(self, element: Any) -> bool:
        if element.tag in _BLOCKS:
            return True
        if element.tag == "code":
            return _is_code_block(element)
        # An inline element around blocks, such as a link around a whole card.
        return any(child.tag in _BLOCKS for child in element if isinstance(child.tag, str))

    def _block(self, element: Any, depth: int) -> list[str]:
        tag = element.tag
        if depth > MAX_DEPTH:
            return [text] if (text := _tidy("".join(element.itertext()))) else []
        if tag in _HEADINGS or tag == "head":
            level = _HEADINGS.get(tag) or _HEADINGS.get(str(element.get("rend")), 2)
            text = _tidy(self._inside(element, depth)).replace("\n", " ").replace("**", "")
            return [f"{'#' * level} {text}"] if text else []
        if tag in ("pre", "code"):
            return self._code(element)
        if tag in _LISTS:
            return ["\n".join(lines)] if (lines := self._list(element, depth)) else []
        if tag == "table":
            return self._table(element, depth)
        if tag in _QUOTES:
            quoted = "\n\n".join(self._blocks(element, depth))
            return ["\n".join(f"> {line}".rstrip() for line in quoted.splitlines())] if quoted else []
        if tag == "hr":
            return ["---"]
        if tag in _ITEMS:  # outside a list
            return [f"- {text}" for text in self._blocks(element, depth)]
        if tag in _LINKS:
            self._keep_link(element, _tidy("".join(element.itertext())))
        return self._blocks(element, depth)

    def _code(self, element: Any) -> list[str]:
        text = "".join(_code_text(element)).strip("\n")
        if not text.strip():
            return []
        fence = "```"
        while fence in text:
            fence += "`"
        return [f"{fence}{_code_language(element)}\n{text}\n{fence}"]

    def _list(self, element: Any, depth: int) -> list[str]:
        is_numbered = element.tag == "ol" or element.get("rend") == "ol"
        lines: list[str] = []
        number = 0
        for child in element:
            if not isinstance(child.tag, str) or child.tag in SKIPPED:
                continue
            blocks = self._blocks(child, depth + 1) if child.tag in _ITEMS else self._block(child, depth + 1)
            if not blocks:
                continue
            number += 1
            mark = f"{number}. " if is_numbered else "- "
            if child.tag not in _ITEMS or child.tag == "dd":
                mark = "  "
            lines += _hanging(mark, blocks)
        return lines

    def _table(self, element: Any, depth: int) -> list[str]:
        """A table of data as rows; a table that only lays out a page, as the blocks in its cells."""
        rows = [[cell for cell in row if cell.tag in _CELLS] for row in element.iter(*_ROWS)]
        rows = [row for row in rows if row]
        captions = [text for one in element.iter("caption") if (text := _tidy(self._inside(one, depth)))]
        if not rows or self._is_layout(element, rows):
            return captions + self._cells_as_blocks(element, rows, depth)
        width = min(MAX_COLUMNS, max(len(row) for row in rows))
        lines: list[str] = []
        for number, row in enumerate(rows):
            cells = [" ".join(self._blocks(cell, depth + 1)).replace("\n", " ") for cell in row[:width]]
            cells = [cell.replace("|", "\\|") for cell in cells] + [""] * (width - len(row))
            lines.append(f"| {' | '.join(cells)} |")
            if number == 0:
                lines.append("|" + " --- |" * width)
        return [*captions, "\n".join(lines)]

    def _is_layout(self, element: Any, rows: list[list[Any]]) -> bool:
        if next(element.iter("th"), None) is not None:
            return False
        if element.get("role") == "presentation" or max(len(row) for row in rows) == 1:
            return True
        inner = {"table", "p", "h1", "h2", "h3", "ul", "ol", "div", "pre"}
        return sum(1 for row in rows for cell in row if any(one.tag in inner for one in cell)) * 2 > len(rows)

    def _cells_as_blocks(self, element: Any, rows: list[list[Any]], depth: int) -> list[str]:
        own = [row for row in rows if next(row[0].iterancestors("table"), element) is element]
        return [block for row in own for cell in row for block in self._blocks(cell, depth + 1)]

    def _inside(self, element: Any, depth: int) -> str:
        parts = [element.text or ""]
        for child in element:
            if isinstance(child.tag, str) and child.tag not in SKIPPED:
                parts.append(self._inline(child, depth + 1))
            parts.append(child.tail or "")
        return "".join(parts)

    def _inline(self, element: Any, depth: int) -> str:
        tag = element.tag
        if tag in _BREAKS:
            return BREAK
        if depth > MAX_DEPTH:
            return "".join(element.itertext())
        if tag in ("code", "kbd", "samp", "tt"):
            return _around("`", _SPACE.sub(" ", "".join(element.itertext())))
        text = self._inside(element, depth)
        if self._is_block(element) and text:
            text = f" {text} "
        if tag in _LINKS:
            self._keep_link(element, _tidy(text))
            return text
        if tag in _STRONG or tag in _EMPHASIS:
            return _around("**" if tag in _STRONG else "*", text)
        return _around(_RENDITIONS.get(element.get("rend", ""), ""), text) if tag == "hi" else text

    def _keep_link(self, element: Any, text: str) -> None:
        href = (element.get("href") or element.get("target") or "").strip()
        if not href or href.startswith("#") or len(self.links) >= MAX_LINKS:
            return
        try:
            address = urljoin(self._base, href)
            if urlsplit(address).scheme in ("http", "https"):
                self.links.setdefault(address.partition("#")[0][:2000], text.replace("\n", " ")[:200])
        except ValueError:
            pass


def _tidy(text: str) -> str:
    """Blanks as one, line breaks only where a `br` was."""
    lines = (_SPACE.sub(" ", line).strip() for line in text.split(BREAK))
    return "\n".join(lines).strip()


def _around(mark: str, text: str) -> str:
    """Puts marks around a text but not around its blanks, which Markdown would not accept."""
    inner = text.strip()
    if not mark or not inner or mark in inner or BREAK in inner:
        return text
    start = text[: len(text) - len(text.lstrip())]
    return f"{start}{mark}{inner}{mark}{text[len(text.rstrip()) :]}"


def _hanging(mark: str, blocks: list[str]) -> list[str]:
    indent = " " * len(mark)
    lines = "\n".join(blocks).splitlines()
    return [mark + lines[0], *(indent + line for line in lines[1:])]


def _is_code_block(element: Any) -> bool:
    return "\n" in "".join(element.itertext()) or next(element.iter("lb", "br"), None) is not None


def _code_text(element: Any) -> Iterator[str]:
    """The text of code; a `br` is a new line, and so is the end of a line that is an element of its own."""
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str):
            if child.tag in _BREAKS:
                yield "\n"
            else:
                yield from _code_text(child)
                if child.tag in ("div", "p", "li"):
                    yield "\n"
        yield child.tail or ""


def _code_language(element: Any) -> str:
    inner = element.find("code")
    for one in (element, inner) if inner is not None else (element,):
        found = re.search(r"(?:lang(?:uage)?|brush)[-:]\s*([\w+#-]{1,20})", one.get("class") or "")
        if found:
            return found[1].lower()
    return ""
