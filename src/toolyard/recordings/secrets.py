"""Removes secrets from what is recorded: by value, where a value is known, and by what secrets look like.

A secret becomes `<secret:1>`, the same one always under the same number, so that equal calls stay equal. A
known value is found in the forms in which texts carry others: escaped, in a URL, in base64, in hex. A value
behind a telling name (`"password": "…"`) counts as known from then on, if it looks like no word.
"""

import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, cast
from urllib.parse import quote, quote_plus, unquote, urlsplit

import msgspec
from msgspec import Raw

from ..config import Composio, Config, Http, InProcess, ServerConfig, Stdio
from ..wire.messages import encode

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
_SECRET_VARIABLE = re.compile(
    r"(?:.*_)?(?:KEY|TOKEN|SECRET|PASS|PASSWORD|PASSWD|PWD|CREDENTIALS?|DSN|AUTH|COOKIE)(?:_.*)?", re.I
)
_SECRET_OPTION = re.compile(r"--?(?:key|token|password|secret|api-key)", re.I)

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
    re.compile(rf"""(?<![\w<-])(?:{_NAME})\s*[:=]\s*(?:(?:bearer|basic)\s+)?([^\s,;&'"\\<]+)""", re.I),
    # Set-Cookie: id=abc; Path=/
    re.compile(r"\b(?:set-)?cookie\s*:\s*([^\r\n\"\\]+)", re.I),
)
_PLAIN_WORD = re.compile(r"[a-z]+|[A-Z]?[a-z]+|[\d.]+|[A-Z]+", re.ASCII)
_HARMLESS_HEADERS = {"accept", "accept-language", "content-type", "user-agent", "origin", "referer", "host"}


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
            after_option = _SECRET_OPTION.fullmatch(word) is not None
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


# The forms of one value


def _forms(value: str) -> set[str]:
    found = {value}
    # In a JSON text, and in one inside another; with and without escapes for what is not ASCII.
    for ascii in (False, True):
        once = json.dumps(value, ensure_ascii=ascii)[1:-1]
        twice = json.dumps(once, ensure_ascii=ascii)[1:-1]
        found |= {once, twice, once.replace("/", "\\/")}
    quoted = {quote(value, safe=""), quote(value), quote_plus(value)}
    found |= quoted | {re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), form) for form in quoted}
    found |= {quote(form, safe="") for form in quoted}
    data = value.encode("utf-8", "surrogatepass")
    found |= {data.hex(), data.hex().upper()}
    found |= {form for text in _base64(data) for form in (text, text.translate(_URL_SAFE))}
    return {form for form in found if len(form) >= min(len(value), SHORTEST)}


_URL_SAFE = str.maketrans("+/", "-_")


def _base64(data: bytes) -> Iterator[str]:
    """As it appears in base64, alone or after other bytes: the characters that it alone decides."""
    for before in range(3):
        text = b64encode(bytes(before) + data).decode()
        start, end = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        if end - start >= SHORTEST:
            yield text[start:end]


# Which values are secret


def secrets_of_process(environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """The values of variables with telling names."""
    for name, value in environ.items():
        if _SECRET_VARIABLE.fullmatch(name) and len(value) >= SHORTEST and not _is_place(value):
            yield from _value(value)


def secrets_of_config(config: Config) -> Iterator[str]:
    for server in config.servers:
        yield from secrets_of_server(server)
    settings: Any = msgspec.to_builtins(
        [config.state, config.store, config.auth, config.telemetry], enc_hook=lambda other: str(other)
    )
    yield from _in_tables(settings)


def secrets_of_server(config: ServerConfig) -> Iterator[str]:
    where = config.where
    if isinstance(where, Stdio):
        for name, value in where.env.items():
            yield from _variable(name, value)
        for before, word in zip(("", *where.args), where.args, strict=False):
            name, equals, value = word.partition("=")
            if _SECRET_OPTION.fullmatch(before):
                yield from _value(word)
            elif equals and _SECRET_NAME.fullmatch(name.lstrip("-")):
                yield from _value(value)
            yield from _in_url(word)
    elif isinstance(where, Http):
        yield from _in_url(where.url)
        yield from _in_url(where.session_url)
        for name, value in where.headers.items():
            if name.lower() not in _HARMLESS_HEADERS:
                yield from _value(value)
    elif isinstance(where, Composio):
        yield from _value(where.api_key)
    else:
        yield from _in_tables(_options(where))


def _options(where: InProcess) -> Any:
    return msgspec.to_builtins(dict(where.options), enc_hook=lambda other: str(other))


def _in_tables(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            yield from _in_tables(item, str(key))
    elif isinstance(value, list):
        for item in cast(list[Any], value):
            yield from _in_tables(item, name)
    elif isinstance(value, str):
        if _SECRET_NAME.fullmatch(name) or _SECRET_VARIABLE.fullmatch(name):
            yield from _value(value)
        yield from _in_url(value)


def _variable(name: str, value: str) -> Iterator[str]:
    """A variable of a server is taken for a secret, unless it looks like something else."""
    if _SECRET_VARIABLE.fullmatch(name):
        yield from _value(value)
    elif len(value) >= SHORTEST and not _is_place(value) and _PLAIN_WORD.fullmatch(value) is None:
        yield value
    yield from _in_url(value)


def _value(value: str) -> Iterator[str]:
    """A credential, and the parts of it that appear alone."""
    yield value
    scheme, _, rest = value.partition(" ")
    if rest and scheme.isalpha():
        yield rest
    if scheme.lower() == "basic":
        with suppress(ValueError):
            yield b64decode(rest, validate=True).decode().partition(":")[2]
    yield from _in_url(value)


def _in_url(text: str) -> Iterator[str]:
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if _SECRET_NAME.fullmatch(name) or _SECRET_VARIABLE.fullmatch(name):
            yield unquote(value)


def _is_place(value: str) -> bool:
    """A path, or an address without a password."""
    if value.startswith(("/", "./", "~", "../")) or re.match(r"[A-Za-z]:\\", value):
        return True
    return "://" in value and not any(_in_url(value))
