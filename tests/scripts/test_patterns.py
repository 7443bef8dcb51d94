"""Our regular expressions mean the same in every Python that we support.

Before 3.11.5 (Debian 12 has 3.11.2) a possessive quantifier goes wrong where what it repeats can backtrack:
secrets went unmasked in a log there.
"""

import importlib
import pkgutil
import re
import re._constants as sre  # pyright: ignore[reportMissingImports]
import re._parser as parser  # pyright: ignore[reportMissingImports]
from collections.abc import Iterator
from typing import Any

import pytest

import toolyard

_BACKTRACKING = {sre.BRANCH, sre.MAX_REPEAT, sre.MIN_REPEAT, sre.ASSERT, sre.ASSERT_NOT}


def patterns() -> dict[str, "re.Pattern[Any]"]:
    found: dict[str, re.Pattern[Any]] = {}
    for module in pkgutil.walk_packages(toolyard.__path__, "toolyard."):
        if not module.name.endswith(("__main__", "aws.runtime")):
            for name, value in vars(importlib.import_module(module.name)).items():
                for number, pattern in enumerate(_within(value)):
                    found[f"{module.name}.{name}[{number}]"] = pattern
    return found


def _within(value: Any) -> Iterator["re.Pattern[Any]"]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _within(part)


def _nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    for node in tree:
        yield node
        for part in _parts(node[1]):
            yield from _nodes(part)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, parser.SubPattern):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _parts(part)


def goes_wrong(pattern: "re.Pattern[Any]") -> bool:
    return any(
        operation is sre.POSSESSIVE_REPEAT and any(inner in _BACKTRACKING for inner, _ in _nodes(value[2]))
        for operation, value in _nodes(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
    )


def test_no_possessive_quantifier_repeats_what_can_backtrack():
    found = patterns()
    assert len(found) > 100
    assert [name for name, pattern in found.items() if goes_wrong(pattern)] == []


@pytest.mark.parametrize("text", [r"(?:ab|ba)*+c", r"(?:a(?!b)\w?)++", r"(?:x{0,9}?y)?+"])
def test_such_a_pattern_would_be_found(text: str):
    assert goes_wrong(re.compile(text))


@pytest.mark.parametrize("text", [r"[ab]*+c", r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', r"(?:ab|ba)*c"])
def test_others_are_admitted(text: str):
    assert not goes_wrong(re.compile(text))
