"""Patterns of `[access]`, `[limits]` and grants: which items one names, and names compiled for fast tests.

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
from collections.abc import Callable, Iterable
from functools import lru_cache
from posixpath import normpath
from urllib.parse import unquote

from msgspec import Struct

from ..wire.text import normalized
from .errors import nearest_or_all

ALL_KINDS = frozenset({"tools", "prompts", "resources", "resourceTemplates"})
ADDRESSED = frozenset({"resources", "resourceTemplates"})
"""The kinds whose items are named by an address."""
_PREFIXES = {"prompt": frozenset({"prompts"}), "resource": ADDRESSED}
_SUFFIXES = {"read": True, "write": False}
_PREFIX = re.compile(r"([^/:]*):")
_SUFFIX = re.compile(r"\*:([^/:*?]*)$")
_WILD = re.compile(r"[*?]")
_STARS = re.compile(r"\*+")
_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455"
    "\u04bb\u0501\u051b\u051d\u04cf\u043a\u043c\u0442\u0432\u043d"
    "\u0433\u043f\u0475\u03b1\u03bf\u03c1\u03bd\u03b9\u03ba\u03c5"
    "\u03c4\u03b7\u03c7\u03b5\u03b2\u03bc\u03b6\u03c9\u0131\u0251"
    "\u0261\u0269\u2113",
    "aeopcyxijshdqwlkmtbhrnvaopvikutnxebmzwiagil",
)
"""Cyrillic and Greek letters, some of them as capitals, that are drawn like Latin ones."""
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
    text = normalized("NFKC", normalized("NFKC", text).casefold())
    return "".join(letter for letter in text if unicodedata.category(letter) != "Cf" and not _selects(letter))


def skeleton(text: str) -> str:
    """The canonical form, and letters of other alphabets as the Latin ones that they look like.

    Only for what is denied: whoever is let in by a name must have that name.
    """
    return text.lower() if text.isascii() else canonical(text).translate(_LOOKALIKES)


def _selects(letter: str) -> bool:
    """Variation selectors are not seen and have no category of their own."""
    return "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef"


def spellings(uri: str) -> tuple[str, ...]:
    """An address, and the same as a server may read it: a deny needs one of them, an allow both."""
    plain = _plain_address(uri)
    return (uri,) if plain == uri else (uri, plain)


def _plain_address(uri: str) -> str:
    """Percent-encodings decoded, `.` and `..` resolved."""
    for _ in range(MAX_DECODINGS):
        if "%" not in uri:
            break
        uri = unquote(uri)
    if "/." not in uri and "\\" not in uri:
        return uri
    scheme, separator, path = uri.replace("\\", "/").partition("://")
    return scheme + separator + normpath(path) if separator else normpath(scheme)


class GlobMatcher:
    """Several patterns of names in one test. The usual forms need no regular expression.

    Compiling one takes as long as a thousand tests, and each kind of items of each server has its own.
    """

    __slots__ = ("everything", "matches", "nothing")

    def __init__(
        self, globs: Iterable[str], spelling: Callable[[str], str] = str, *, folds: bool = False
    ) -> None:
        """`folds`: names are compared by their skeletons, as `spelling` makes them of the patterns."""
        self.everything = False
        self.nothing = True
        exact, prefixes, suffixes = set[str](), list[str](), list[str]()
        inner: list[str] = []
        regexes: list[re.Pattern[str]] = []
        for glob in globs:
            self.nothing = False
            parts = _STARS.split(glob) if "**" in glob else glob.split("*")
            match [spelling(part) for part in parts]:
                case _ if "?" in glob:
                    regexes.append(_regex(glob, spelling))
                case [whole]:
                    exact.add(whole)
                case ["", ""]:
                    self.everything = True
                case [start, ""]:
                    prefixes.append(start)
                case ["", end]:
                    suffixes.append(end)
                case ["", within, ""]:
                    inner.append(within)
                case _:
                    regexes.append(_regex(glob, spelling))
        self.matches: Callable[[str], bool] = (
            _everything
            if self.everything
            else _test(
                frozenset(exact), tuple(prefixes), tuple(suffixes), tuple(inner), tuple(regexes), folds
            )
        )


def _everything(name: str) -> bool:
    return True


def _test(
    exact: frozenset[str],
    prefixes: tuple[str, ...],
    suffixes: tuple[str, ...],
    inner: tuple[str, ...],
    regexes: tuple[re.Pattern[str], ...],
    folds: bool,
) -> Callable[[str], bool]:
    if not (prefixes or suffixes or inner or regexes or folds):
        return exact.__contains__

    def matches(name: str) -> bool:
        if folds:  # here and not in a function of its own: a list asks it of every tool
            name = name.lower() if name.isascii() else skeleton(name)
        if name in exact or name.startswith(prefixes) or name.endswith(suffixes):
            return True
        for part in inner:
            if part in name:
                return True
        return bool(regexes) and any(regex.fullmatch(name) for regex in regexes)

    return matches


@lru_cache(maxsize=4096)
def _regex(glob: str, spelling: Callable[[str], str]) -> re.Pattern[str]:
    """Atomic groups keep the time linear in the name, whatever the pattern."""
    parts = _STARS.split(glob)
    first, *rest = ("".join(_piece(one, spelling) for one in re.split(r"(\?)", part)) for part in parts)
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    return re.compile(first + "".join(f"(?>.*?{piece})" for piece in middle) + f".*{last}", re.DOTALL)


def _piece(text: str, spelling: Callable[[str], str]) -> str:
    return "." if text == "?" else re.escape(spelling(text))


class DenyMatcher:
    """Names that a `deny` means: those that match as they are, or by their skeleton."""

    __slots__ = ("_globs", "everything", "matches_ascii", "nothing")

    def __init__(self, globs: Iterable[str]) -> None:
        self._globs = tuple(globs)
        folded = GlobMatcher(self._globs, skeleton, folds=True)
        self.matches_ascii: Callable[[str], bool] = folded.matches
        """The whole test for a name in ASCII, of which none matches as it is and not in lower case."""
        self.everything = folded.everything
        self.nothing = not self._globs

    def matches(self, name: str) -> bool:
        if self.matches_ascii(name):
            return True
        return not name.isascii() and GlobMatcher(self._globs).matches(name)


class ServerIndex:
    """Patterns by server, so that the rules for one are found without asking each pattern."""

    def __init__(self, patterns: Iterable[ItemPattern], *, denies: bool) -> None:
        matcher = DenyMatcher if denies else GlobMatcher
        self._spelling = skeleton if denies else str
        self._exact: dict[str, list[ItemPattern]] = {}
        self._wild: list[tuple[ItemPattern, DenyMatcher | GlobMatcher]] = []
        for pattern in patterns:
            if _WILD.search(pattern.server):
                self._wild.append((pattern, matcher([pattern.server])))
            else:
                self._exact.setdefault(self._spelling(pattern.server), []).append(pattern)

    def names(self, kind: str, server: str, is_read: bool) -> list[str]:
        """The names that the patterns have for one kind of items of a server."""
        found = self._exact.get(self._spelling(server), [])
        wild = [pattern for pattern, servers in self._wild if servers.matches(server)]
        return [
            pattern.name
            for pattern in found + wild
            if kind in pattern.kinds and (pattern.reads is None or pattern.reads is is_read)
        ]

    def covers(self, server: str) -> bool:
        return self._spelling(server) in self._exact or any(test.matches(server) for _, test in self._wild)
