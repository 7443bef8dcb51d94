"""Removes secrets from what is recorded: by value, where a value is known, and by what secrets look like.

A secret becomes `<secret:1>`, the same one always under the same number, so that equal calls stay equal. A
known value is found in the forms in which texts carry others: escaped, in a URL, in base64, in hex. A value
behind a telling name (`"password": "…"`) counts as known from then on, if it looks like no word.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from ..config.secrets import is_secret_name, parts_of
from ..wire.messages import encode
from ..wire.secrets import forms_of

PLACEHOLDER = re.compile(r"<secret(?::\d+)?>")
ANY_SECRET = "<secret>"
"""Stands for each of them, where two recordings are compared."""
SHORTEST = 6
"""A shorter value would be found in the middle of words. A value with a telling name may have four."""
SHORTEST_NAMED = 4

_NAME = (
    r"[\w.-]*(?:authorization|api[_-]?key|access[_-]?key|private[_-]?key|(?<![a-z])token|(?:access|refresh|id|auth)token"
    r"|secret|passwd|password|passphrase|credentials?|cookie|(?<![a-z])pwd|(?<![a-z])dsn)"
)
_SECRET_NAME = re.compile(_NAME, re.I)
_NAME_WORDS = ("auth", "key", "token", "secret", "pass", "credential", "cookie", "pwd", "dsn")
"""Without any of these, no telling name is in a text: looking for them is a hundred times faster."""

# Words without one of which the rule fits nothing, and a rule with one group: the secret itself.
_CERTAIN = (
    # Bearer abc, and Basic if what follows looks encoded: "Basic tools" are no secret
    (("bearer",), re.compile(r"\b(?:bearer)\s+([\w.~+/=:-]{8,})", re.I)),
    (("basic",), re.compile(r"\b[Bb]asic\s+(?=[a-z+/]*[A-Z0-9=])([\w+/]{8,}={0,2})")),
    # eyJhbGciOi….eyJzdWIi….signature: a JWT
    (("eyj",), re.compile(r"\b(eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)")),
    (
        ("private key",),
        re.compile(
            r"(-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[\s\S]{0,20000}?"
            r"(?:-----END [A-Z ]{0,20}PRIVATE KEY-----|\Z))"
        ),
    ),
    # Keys that their issuers mark: OpenAI and Anthropic, GitHub, GitLab, Slack, AWS, Google, and so on
    (
        ("_", "-", "akia", "asia", "aiza", "ya29.", "sg."),
        re.compile(
            r"(?<![\w-])((?:sk|rk|pk)[-_](?:[a-z]{2,8}[-_]){0,3}[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}"
            r"|gl[a-z]{2,4}-[\w-]{16,}|xox[a-z]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}"
            r"|ya29\.[\w-]{16,}|hf_\w{20,}|npm_\w{20,}|pypi-[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|dop_v1_\w{20,}"
            r"|shp\w{2}_\w{16,}|lin_api_\w{16,}|ntn_\w{16,}|r8_\w{16,}|gsk_\w{16,}|ak_[\w-]{16,}|tyg_[\w-]{8,}"
            r"|ty_[0-9a-z]{12}_\w+)"
        ),
    ),
    # https://user:password@host
    (("://",), re.compile(r"(?<=://)([^/?#@\s\"'<>]{1,500})(?=@)")),
)
_LIKELY = (
    # ('x-api-key', 'abc'), {"password": "abc"}, also inside a text: a quoted name, then a quoted value
    re.compile(rf"""(?<=['"])(?:{_NAME})\\*['"]\s*[:=,]\s*b?\\*["']((?:[^\\"'])+)""", re.I),
    # token=abc, Authorization: Basic abc
    re.compile(rf"""(?<![\w.<-])(?:{_NAME})\s*[:=]\s*(?:(?:bearer|basic)\s+)?([^\s,;&'"\\<]+)""", re.I),
    # Set-Cookie: id=abc; Path=/
    re.compile(r"\b(?:set-)?cookie\s*:\s*([^\r\n\"\\]+)", re.I),
)
_PLAIN_WORD = re.compile(r"[a-z]+|[A-Z]?[a-z]+|[\d.]+|[A-Z]+", re.ASCII)


class SecretRemover:
    def __init__(self, values: Iterable[str] = ()) -> None:
        self._numbers: dict[str, int] = {}
        self._known: set[str] = set()
        self._forms: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self.add(*values)

    def add(self, *values: str) -> None:
        """Remove these values from now on."""
        for value in values:
            value = value.strip()
            if len(value) < SHORTEST_NAMED or value in self._known or PLACEHOLDER.search(value):
                continue
            self._known.add(value)
            for form in _forms(value):
                self._forms.setdefault(form, value)
            self._pattern = None

    def text(self, text: str, *, definitions: bool = False) -> str:
        """With placeholders. In texts that explain (`definitions`), only what certainly is a secret."""
        if len(text) < SHORTEST_NAMED:
            return text
        if (pattern := self._compiled()) is not None:
            text = pattern.sub(lambda found: self._placeholder(self._forms[found[0]]), text)
        folded = text.lower()
        for words, rule in _CERTAIN:
            if any(word in folded for word in words):
                text = self._apply(rule, text)
        if not definitions and any(word in folded for word in _NAME_WORDS):
            for rule in _LIKELY:
                text = self._apply(rule, text)
        return text

    def json(self, value: Any, *, definitions: bool = False) -> Any:
        """A decoded value with placeholders; the same object if it has no secrets."""
        if isinstance(value, str):
            return self.text(value, definitions=definitions)
        if isinstance(value, dict):
            members = cast(dict[str, Any], value)
            found = {
                self.text(key, definitions=definitions): self._member(key, item, definitions)
                for key, item in members.items()
            }
            same = all(a is b for a, b in zip(found.values(), members.values(), strict=False))
            return members if same and found.keys() == members.keys() else found
        if isinstance(value, list):
            items = cast(list[Any], value)
            cleaned = [self.json(item, definitions=definitions) for item in items]
            return items if all(a is b for a, b in zip(cleaned, items, strict=True)) else cleaned
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self._known:
            return self._placeholder(str(value))
        return value

    def _member(self, key: str, item: Any, definitions: bool) -> Any:
        if not definitions and isinstance(item, str) and item and _SECRET_NAME.fullmatch(key):
            return item if PLACEHOLDER.fullmatch(item) else self._named(item)
        return self.json(item, definitions=definitions)

    def raw(self, data: bytes | Raw, *, definitions: bool = False) -> Raw:
        """JSON with placeholders, on one line. What has no secrets keeps its numbers as they were written."""
        try:
            decoded = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Raw(encode(self.text(bytes(data).decode(errors="replace"))))
        cleaned = self.json(decoded, definitions=definitions)
        return Raw(msgspec.json.format(bytes(data), indent=-1) if cleaned is decoded else encode(cleaned))

    def arguments(self, words: Iterable[str]) -> tuple[str, ...]:
        """The words of a command; what follows `--key` is a secret."""
        found: list[str] = []
        after_option = False
        for word in words:
            found.append(self._named(word) if after_option else self.text(word))
            after_option = word.startswith("-") and is_secret_name(word)
        return tuple(found)

    def _compiled(self) -> re.Pattern[str] | None:
        if self._pattern is None and self._forms:
            longest_first = sorted(self._forms, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        return self._pattern

    def _apply(self, rule: re.Pattern[str], text: str) -> str:
        def put(found: re.Match[str]) -> str:
            value = found[1]
            if PLACEHOLDER.search(value):
                return found[0]
            start = found.start(1) - found.start()
            whole = found[0]
            return whole[:start] + self._named(value) + whole[start + len(value) :]

        return rule.sub(put, text)

    def _named(self, value: str) -> str:
        """A value that is a secret because of what is around it, and is searched for from then on."""
        if len(value) >= SHORTEST and _PLAIN_WORD.fullmatch(value) is None:
            self.add(value)
        return self._placeholder(value)

    def _placeholder(self, value: str) -> str:
        return f"<secret:{self._numbers.setdefault(value, len(self._numbers) + 1)}>"


def without_numbers(text: str) -> str:
    """A text in which every secret looks the same."""
    return PLACEHOLDER.sub(ANY_SECRET, text) if "<secret" in text else text


def _forms(value: str) -> set[str]:
    """Also with the backslashes of JSON, and of one JSON text inside another."""
    found = {value, *forms_of(value)}
    for is_ascii in (False, True):
        once = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        found |= {once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=is_ascii)[1:-1]}
    return found


def secrets_of_process(environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """The values of variables with telling names."""
    for name, value in environ.items():
        if is_secret_name(name) and len(value) >= SHORTEST:
            yield from parts_of(value)
