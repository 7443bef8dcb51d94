"""Patterns of `[access]` rules and grants: which items one names, and names compiled for fast tests.

Owns the grammar of a pattern and how names compare. Knows nothing of rules and principals.

    *                     everything
    SERVER                everything of a server
    SERVER/TOOL           a tool, by the server's own name for it
    SERVER/*:read         its tools that only read, by their annotations
    SERVER/*:write        the others; a tool that does not say counts as one that writes
    prompt:SERVER/NAME    a prompt
    resource:SERVER/URI   a resource or resource template

`*` stands for any characters and `?` for one, in the server's name too.
"""

import re
import unicodedata
from collections.abc import Iterable
from posixpath import normpath
from urllib.parse import unquote

from msgspec import Struct

from ..config.errors import nearest_or_all

ALL_KINDS = frozenset({"tools", "prompts", "resources", "resourceTemplates"})
ADDRESSED = frozenset({"resources", "resourceTemplates"})
"""The kinds whose items are named by an address."""
_PREFIXES = {"prompt": frozenset({"prompts"}), "resource": ADDRESSED}
_SUFFIXES = {"read": True, "write": False}
_PREFIX = re.compile(r"([^/:]*):")
_SUFFIX = re.compile(r"\*:([^/:*?]*)$")
_WILD = re.compile(r"[*?]")
MAX_PATTERN = 2048
MAX_DECODINGS = 3
"""How often an address may be percent-encoded over itself before it is compared as it is."""


class PatternError(ValueError):
    """The text is no pattern; the message says why, and the hint what to write."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ItemPattern(Struct, frozen=True):
    """One pattern: the items of these kinds on the servers and with the names that match."""

    text: str
    kinds: frozenset[str]
    server: str
    name: str
    reads: bool | None = None
    """Only tools that read (True) or write (False); None: both."""

    @property
    def is_server(self) -> bool:
        """Whether it names all that a server has."""
        return self.kinds == ALL_KINDS


def parse(text: str) -> ItemPattern:
    if not text or text != text.strip() or not text.isprintable() or len(text) > MAX_PATTERN:
        raise PatternError(
            f"{text[:80]!r} is no pattern", "write SERVER, SERVER/TOOL or *, without blanks around"
        )
    if text == "*":
        return ItemPattern(text, ALL_KINDS, "*", "*")
    kinds, rest = _kinds(text)
    server, slash, name = rest.partition("/")
    if not server:
        raise PatternError(
            f"{text[:80]!r} names no server", f"write SERVER/{name or 'TOOL'}, or */{name or 'TOOL'}"
        )
    if not slash:
        if kinds is not None:
            raise PatternError(f"{text[:80]!r} names no {text.partition(':')[0]}", f"write {text[:80]}/*")
        return ItemPattern(text, ALL_KINDS, server, "*")
    if not name:
        raise PatternError(f"{text[:80]!r} ends with '/'", f"write {rest[:80]}*, or {server!r} for all of it")
    if kinds is not None:
        return ItemPattern(text, kinds, server, name)
    name, reads = _split_suffix(text, name)
    return ItemPattern(text, frozenset({"tools"}), server, name, reads)


def _kinds(text: str) -> tuple[frozenset[str] | None, str]:
    found = _PREFIX.match(text)
    if found is None:
        return None, text
    prefix = found[1]
    if prefix == "*" and text[2:] in _SUFFIXES:
        raise PatternError(f"{text!r} names no tools", f"write */{text}")
    if prefix not in _PREFIXES:
        raise PatternError(
            f"{text[:80]!r} begins with {prefix + ':'!r}, which is unknown", nearest_or_all(prefix, _PREFIXES)
        )
    return _PREFIXES[prefix], text[found.end() :]


def _split_suffix(text: str, name: str) -> tuple[str, bool | None]:
    """Only after a `*`, for a tool may be called `notes:read`."""
    found = _SUFFIX.search(name)
    if found is None:
        return name, None
    if found[1] not in _SUFFIXES:
        raise PatternError(
            f"{text[:80]!r} ends with {':' + found[1]!r}, which is unknown",
            nearest_or_all(found[1], _SUFFIXES),
        )
    return name[: found.start() + 1], _SUFFIXES[found[1]]


def canonical(text: str) -> str:
    """The form in which names are equal that differ by case, Unicode form or invisible characters only."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(letter for letter in text if unicodedata.category(letter) != "Cf" and not _selects(letter))


def _selects(letter: str) -> bool:
    """Variation selectors are not seen and have no category of their own."""
    return "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef"


def plain_address(uri: str) -> str:
    """An address as a server may read it: percent-encodings decoded, `.` and `..` resolved."""
    for _ in range(MAX_DECODINGS):
        if "%" not in uri:
            break
        uri = unquote(uri)
    if "/." not in uri and "\\" not in uri:
        return uri
    scheme, separator, path = uri.replace("\\", "/").partition("://")
    return scheme + separator + normpath(path) if separator else normpath(scheme)


class NameMatcher:
    """Several patterns of names in one test."""

    __slots__ = ("_exact", "_regex", "everything")

    def __init__(self, globs: Iterable[str], *, as_canonical: bool = False) -> None:
        exact, wild = set[str](), list[str]()
        self.everything = False
        for glob in globs:
            if not glob.strip("*"):
                self.everything = True
            elif _WILD.search(glob):
                wild.append(_regex(glob, as_canonical))
            else:
                exact.add(canonical(glob) if as_canonical else glob)
        self._exact = frozenset(exact)
        self._regex = re.compile("|".join(dict.fromkeys(wild)), re.DOTALL).fullmatch if wild else None

    @property
    def nothing(self) -> bool:
        return not self.everything and not self._exact and self._regex is None

    def matches(self, name: str) -> bool:
        return (
            self.everything
            or name in self._exact
            or (self._regex is not None and self._regex(name) is not None)
        )


def _regex(glob: str, as_canonical: bool) -> str:
    """Atomic groups keep the time linear in the name, whatever the pattern."""
    parts = re.split(r"\*+", glob)
    first, *rest = ("".join(_piece(one, as_canonical) for one in re.split(r"(\?)", part)) for part in parts)
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>.*?{piece})" for piece in middle if piece) + f".*{last}"


def _piece(text: str, as_canonical: bool) -> str:
    return "." if text == "?" else re.escape(canonical(text) if as_canonical else text)


class DenyMatcher:
    """Names that a `deny` means: those that match as they are, or in the canonical form."""

    __slots__ = ("_exact", "_folded", "everything")

    def __init__(self, globs: Iterable[str]) -> None:
        globs = tuple(globs)
        self._exact = NameMatcher(globs)
        self._folded = NameMatcher(globs, as_canonical=True)
        self.everything = self._exact.everything

    @property
    def nothing(self) -> bool:
        return self._exact.nothing

    def matches(self, name: str) -> bool:
        if self.everything:
            return True
        folded = name.lower() if name.isascii() else canonical(name)
        return self._folded.matches(folded) or (folded != name and self._exact.matches(name))
