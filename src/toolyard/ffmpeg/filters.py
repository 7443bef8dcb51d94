"""Writes filter graphs. Every value is escaped, so that a text is a text whatever is in it.

A graph is parsed twice: first into filters, at `[ ] , ; '` and backslashes, then each filter into options,
at `:`, `'` and backslashes.
"""

import re

_OPTION = re.compile(r"([\\':])")
_GRAPH = re.compile(r"([\\'\[\],;])")
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")

FilterValue = str | int | float


def escaped(value: FilterValue) -> str:
    """A value of an option inside a graph."""
    text = f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return _GRAPH.sub(r"\\\1", _OPTION.sub(r"\\\1", text))


def graph_filter(name: str, *values: FilterValue, **options: FilterValue) -> str:
    """`scale=640:-2`, `drawtext=textfile=a.txt:x=10`."""
    named = [f"{key}={escaped(value)}" for key, value in options.items()]
    parts = [*map(escaped, values), *named]
    return f"{name}={':'.join(parts)}" if parts else name


def chain(*filters: str) -> str:
    """Filters one after the other; empty ones are left out."""
    return ",".join(filter(None, filters))


def is_expression(text: str, names: frozenset[str]) -> bool:
    """Whether a text is arithmetic on numbers and these names, as ffmpeg evaluates it."""
    if not re.fullmatch(r"[A-Za-z_0-9+\-*/(). ]{1,100}", text) or text.count("(") != text.count(")"):
        return False
    return all(name in names for name in _NAME.findall(re.sub(r"\d+(?:\.\d*)?", " 1 ", text)))
