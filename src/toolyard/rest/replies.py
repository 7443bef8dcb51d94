"""What a reply says, and what of it the model is shown."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET

from ..kit import Secret, ToolError
from .connection import Reply
from .failures import is_html, tidy
from .table import Result
from .wording import Words

_MARK = b"\xef\xbb\xbf"
"""Some begin their JSON with it, though it has no business there."""

Verbosity = Literal["rich", "compact"]
Tree = dict[str, "Tree"]


def decoded(reply: Reply, words: Words, key: Secret | None = None) -> Any:
    """The body as JSON, or as text where it says that it is; UNSET when there is none."""
    if not reply.body.strip():
        return UNSET
    if not is_html(reply):
        try:
            return msgspec.json.decode(reply.body.removeprefix(_MARK))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        if reply.headers.get("content-type", "").lower().startswith("text/"):
            return reply.body.decode("utf-8", "replace")
    if not is_html(reply) and "json" in reply.headers.get("content-type", "").lower():
        damaged = "its JSON is damaged"
        raise ToolError(words.garbled.format(reason=words.reasons.get(damaged, damaged)))
    kind = "HTML" if is_html(reply) else tidy(reply.headers.get("content-type", ""), 60, key) or "?"
    raise ToolError(words.not_json.format(kind=kind, status=reply.status))


def at(value: Any, path: str) -> Any:
    """What is at a path with dots, None when nothing is; the whole for an empty one."""
    for step in path.split(".") if path else ():
        if isinstance(value, dict):
            value = cast(dict[str, Any], value).get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step[:9]) < len(cast(list[Any], value)):
            value = cast(list[Any], value)[int(step[:9])]
        else:
            return None
    return value


def matter(value: Any, result: Result) -> tuple[Any, list[Any] | None]:
    """What matters in a reply, and the list in it when it is one."""
    found = at(value, result.unwrap)
    if found is None:
        found = value
    items = at(found, result.items) if result.items else found
    return found, cast(list[Any], items) if isinstance(items, list) else None


class Keeping:
    """Which fields are kept of an object, or of each item, by paths with dots that go through lists."""

    def __init__(self, result: Result, verbosity: Verbosity) -> None:
        self._result = result
        self._verbosity = verbosity

    @cached_property
    def _tree(self) -> Tree:
        result = self._result
        return _tree(result.compact or result.rich if self._verbosity == "compact" else result.rich)

    def asked(self, arguments: Mapping[str, Any]) -> Callable[[Any], Any]:
        """What is kept for these arguments, of anything."""
        details = self._result.details
        tree = {} if details and arguments.get(details) is True else self._tree
        return lambda value: _kept(value, tree)


def _tree(paths: tuple[str, ...]) -> Tree:
    root: Tree = {}
    for path in paths:
        node = root
        for step in path.split("."):
            node = node.setdefault(step, {})
    return root


def _kept(value: Any, tree: Tree) -> Any:
    """A path that ends keeps all below it; one that leads nowhere costs nothing."""
    if not tree:
        return value
    if isinstance(value, list):
        return [_kept(item, tree) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        entries = cast(dict[str, Any], value)
        return {name: _kept(entries[name], below) for name, below in tree.items() if name in entries}
    return value
