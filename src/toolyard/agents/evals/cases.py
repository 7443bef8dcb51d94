"""Cases as a file has them: TOML, YAML or JSON lines, and what is wrong with one that cannot be used."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

import msgspec
from msgspec import Struct

from ...config.errors import nearest_or_all
from ...extras import install_command

JsonObject = dict[str, Any]

PATTERN = "re:"
"""Begins a text in the place of an argument that is a regular expression."""
MAX_FILE = 16 * 1024 * 1024


class EvalFileError(Exception):
    """The file cannot be used; the hint says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class _Keys(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a file holds."""


class ExpectedCall(_Keys, frozen=True, kw_only=True):
    """A call that has to succeed. Arguments that it does not name may be anything."""

    tool: str
    """`server/tool`, the full name, or the tool's own; `*` stands for anything."""
    arguments: JsonObject = {}


class FileCheck(_Keys, frozen=True, kw_only=True):
    """A file in the workspace after the run."""

    path: str
    contains: str = ""
    matches: str = ""
    absent: bool = False


class ScriptedStep(_Keys, frozen=True, kw_only=True):
    """What the scripted model does: find a tool and call it."""

    tool: str
    """The full name."""
    arguments: JsonObject = {}
    search: str = ""
    """What it searches for if the tool is not listed; empty: the task."""


class EvalCase(_Keys, frozen=True, kw_only=True):
    name: str
    task: str
    calls: tuple[ExpectedCall, ...] = ()
    in_order: bool = False
    """Whether the calls have to come in this order, possibly with others between them."""
    forbidden: tuple[str, ...] = ()
    """Tools that must not be called, with or without success."""
    answer_contains: tuple[str, ...] = ()
    answer_matches: str = ""
    files: tuple[FileCheck, ...] = ()
    given: dict[str, str] = {}
    """Files that are in the workspace before the run, by their path."""
    max_turns: int | None = None
    script: tuple[ScriptedStep, ...] = ()
    says: str = "{result}"
    """The scripted model's answer; `{result}` stands for what the last tool returned."""


class EvalSuite(_Keys, frozen=True, kw_only=True):
    name: str = ""
    config: str = ""
    """The configuration file with the servers, relative to this file; empty: the one that is found."""
    model: str = ""
    agent: str = ""
    """An agent of the library; empty: a plain one that just does the task."""
    fresh_state: bool = False
    """Whether servers begin with an empty state folder, so that a run finds nothing of another."""
    max_turns: int = 20
    cases: tuple[EvalCase, ...] = ()


def load_suite(path: Path) -> EvalSuite:
    """Reads and checks a file. Raises EvalFileError."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise EvalFileError(f"{path} is larger than {MAX_FILE // 2**20} MiB")
        text = path.read_text("utf-8")
    except OSError as error:
        raise EvalFileError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise EvalFileError(f"{path} is not UTF-8 text") from None
    suite = _converted(path, _decoded(path, text))
    _check(path, suite)
    return suite if suite.name else msgspec.structs.replace(suite, name=path.stem)


def _decoded(path: Path, text: str) -> JsonObject:
    match path.suffix.lower():
        case ".toml":
            try:
                return tomllib.loads(text)
            except tomllib.TOMLDecodeError as error:
                raise EvalFileError(f"{path}: {error}") from None
        case ".yaml" | ".yml":
            return _yaml(path, text)
        case ".jsonl" | ".ndjson":
            return {"cases": [_json(f"{path}, line {number}", line) for number, line in _lines(text)]}
        case ".json":
            return _object(path, _json(str(path), text))
        case _:
            raise EvalFileError(f"{path} has no known form", "use .toml, .yaml, .json or .jsonl")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _json(where: str, text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise EvalFileError(f"{where}: {error}") from None


def _yaml(path: Path, text: str) -> JsonObject:
    try:
        import yaml
    except ImportError:
        raise EvalFileError(f"{path} needs PyYAML", f"{install_command('openapi')}, or use TOML") from None
    try:
        found: object = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise EvalFileError(f"{path}: {' '.join(str(error).split())}") from None
    return _object(path, found)


def _object(path: Path, found: object) -> JsonObject:
    if isinstance(found, list):
        return {"cases": found}
    if not isinstance(found, dict):
        raise EvalFileError(f"{path} holds no cases", "it needs `cases`, a list")
    return cast(JsonObject, found)


def _converted(path: Path, found: JsonObject) -> EvalSuite:
    known = EvalSuite.__struct_fields__
    for key in found:
        if key not in known:
            raise EvalFileError(f"{path}: unknown key {key!r}", nearest_or_all(key, known))
    cases = found.get("cases")
    if not isinstance(cases, list) or not cases:
        raise EvalFileError(f"{path} holds no cases", "it needs `cases`, a list")
    read = tuple(_case(path, number, one) for number, one in enumerate(cast("list[object]", cases), 1))
    try:
        suite = msgspec.convert({**found, "cases": []}, EvalSuite)
    except msgspec.ValidationError as error:
        raise EvalFileError(f"{path}: {error}") from None
    return msgspec.structs.replace(suite, cases=read)


def _case(path: Path, number: int, found: object) -> EvalCase:
    fields: JsonObject = cast(JsonObject, found) if isinstance(found, dict) else {}
    where = f"{path}: case {fields.get('name') or number!r}"
    for key in fields:
        if key not in EvalCase.__struct_fields__:
            raise EvalFileError(
                f"{where}: unknown key {key!r}", nearest_or_all(key, EvalCase.__struct_fields__)
            )
    try:
        return msgspec.convert(found, EvalCase)
    except msgspec.ValidationError as error:
        raise EvalFileError(f"{where}: {error}") from None


def _check(path: Path, suite: EvalSuite) -> None:
    seen: set[str] = set()
    for case in suite.cases:
        where = f"{path}: case {case.name!r}"
        if not case.name.strip() or not case.task.strip():
            raise EvalFileError(f"{where} needs a name and a task")
        if case.name in seen:
            raise EvalFileError(f"{where} is there twice")
        seen.add(case.name)
        if not (case.calls or case.forbidden or case.answer_contains or case.answer_matches or case.files):
            raise EvalFileError(
                f"{where} checks nothing", "add calls, forbidden, answer_contains, answer_matches or files"
            )
        for name in [*case.given, *(check.path for check in case.files)]:
            if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise EvalFileError(f"{where}: {name!r} is not a path inside the workspace")
        for pattern in [case.answer_matches, *(check.matches for check in case.files), *_patterns(case)]:
            try:
                re.compile(pattern)
            except re.error as error:
                raise EvalFileError(f"{where}: {pattern!r} is not a regular expression: {error}") from None


def _patterns(case: EvalCase) -> Iterator[str]:
    def within(value: object) -> Iterator[str]:
        if isinstance(value, str) and value.startswith(PATTERN):
            yield value.removeprefix(PATTERN)
        elif isinstance(value, dict):
            for member in cast(JsonObject, value).values():
                yield from within(member)
        elif isinstance(value, list):
            for member in cast("list[object]", value):
                yield from within(member)

    for call in case.calls:
        yield from within(call.arguments)
