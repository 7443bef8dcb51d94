"""References to secrets in a configuration: `${secret:NAME}`, `${file:PATH}` and others.

Owns their spelling, the reading of files, and `SecretText`, the type of a value that came from one. Where
the other values come from is not known here: whoever loads a configuration passes a function for them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

from msgspec import Struct

from .errors import UnusableEntryError

ReferenceKind = Literal["secret", "file", "keyring", "aws-secret", "sops"]
MAX_FILE = 64 << 10
"""Bytes of a file with a secret."""

_REFERENCE = re.compile(rf"(?P<kind>{'|'.join(get_args(ReferenceKind))}):(?!-)(?P<place>.+)", re.S)
_PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<body>[^}]*)\}")


class SecretText(str):
    """A text that came from a reference. It is sent as it is, and hidden where its form is shown.

    `parts` are what of it is secret; without any, all of it.
    """

    __slots__ = ("parts",)
    parts: tuple[str, ...]

    def __new__(cls, text: str, parts: "Sequence[str]" = ()) -> "SecretText":
        made = super().__new__(cls, text)
        made.parts = tuple(parts) or (text,)
        return made

    def __repr__(self) -> str:
        return "'***'"


class SecretReference(Struct, frozen=True, order=True):
    kind: ReferenceKind
    place: str
    """The name, path or entry; after a `#` the key within it, for some kinds."""

    @classmethod
    def parse(cls, body: str) -> "SecretReference | None":
        """The text between `${` and `}`; None if it is another kind of placeholder."""
        found = _REFERENCE.fullmatch(body)
        return None if found is None else cls(cast(ReferenceKind, found["kind"]), found["place"].strip())

    def __str__(self) -> str:
        return f"${{{self.kind}:{self.place[:100]}}}"


class UnresolvedReference(Struct, frozen=True):
    """Why a reference has no value, and what to do."""

    reason: str
    hint: str


Resolution = Mapping[SecretReference, SecretText | UnresolvedReference]


class ResolvedEnvironment(Mapping[str, str]):
    """Environment variables, and the values of references beside them."""

    def __init__(self, variables: Mapping[str, str], references: Resolution) -> None:
        self._variables = variables
        self._references = references

    def __getitem__(self, name: str) -> str:
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def secret(self, reference: SecretReference) -> SecretText | UnresolvedReference | None:
        return self._references.get(reference)


def value_of(reference: SecretReference, env: Mapping[str, str], key: str) -> SecretText:
    """Raises UnusableEntryError if there is none."""
    found = env.secret(reference) if isinstance(env, ResolvedEnvironment) else None
    if isinstance(found, SecretText):
        return found
    if found is None:
        raise UnusableEntryError(
            f"{key!r} uses {reference}, which cannot be used here",
            "secrets are for servers and tables of Toolyard's own files; use a variable: ${NAME}",
        )
    raise UnusableEntryError(f"{key!r} needs {reference}: {found.reason}", found.hint)


def placeholders_in(value: Any) -> Iterator[str]:
    """What stands between `${` and `}` in the texts of a table."""
    if isinstance(value, str):
        if "${" in value:
            yield from (found["body"] for found in _PLACEHOLDER.finditer(value) if found["body"])
    elif isinstance(value, dict | list):
        held = cast(dict[str, Any], value).values() if isinstance(value, dict) else cast(list[Any], value)
        for item in held:
            yield from placeholders_in(item)


def references_in(value: Any) -> set[SecretReference]:
    parsed = (SecretReference.parse(body) for body in placeholders_in(value))
    return {found for found in parsed if found is not None}


def plain(value: Any) -> Any:
    """A copy with ordinary texts, for code that would not know a SecretText."""
    if isinstance(value, SecretText):
        return str(value)
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list):
        return [plain(item) for item in cast(list[Any], value)]
    return value


def read_files(references: Sequence[SecretReference], folder: Path) -> Resolution:
    """The values of references to files; a relative path is below `folder`."""
    return {one: _read_file(one, folder) for one in references if one.kind == "file"}


def path_of(reference: SecretReference, folder: Path) -> Path:
    return folder / Path(reference.place.partition("#")[0] if reference.kind == "sops" else reference.place)


def _read_file(reference: SecretReference, folder: Path) -> SecretText | UnresolvedReference:
    path = path_of(reference, folder).expanduser()
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE + 1)
        if len(raw) > MAX_FILE:
            return UnresolvedReference(
                f"the file has more than {MAX_FILE} bytes", "name a file with one secret"
            )
        text = raw.decode().rstrip("\r\n")
    except FileNotFoundError:
        return UnresolvedReference(
            "there is no such file", "mount or create it; it is read again when it is there"
        )
    except OSError as error:
        return UnresolvedReference(f"the file cannot be read: {error.strerror}", "let this user read it")
    except UnicodeDecodeError:
        return UnresolvedReference("the file is not a text", "name a file with one secret")
    if not text or "\0" in text:
        return UnresolvedReference("the file is empty or no text", "write the secret into it")
    return SecretText(text)
