"""Loads a definition: `crm.toml` with its overlay `crm.pt.toml`, or `crm.pt.json`, compiled from both.

Owns the choice of files, the report of problems, and the compiled form (1 ms to read; 200 KB of TOML take
70 ms). Imports the checks, 20 ms of CPU, only for a definition that is not compiled.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from .model import (
    SHOWN,
    ApiDefinition,
    DefinitionError,
    DefinitionProblem,
    Lookup,
    Overlay,
    ParameterDefinition,
    ToolDefinition,
    ToolTexts,
    format_path,
)

if TYPE_CHECKING:
    from ...languages import Locale
    from .diagnostics import LineIndex


COMPILED_VERSION = 1
_COMPILED_START = b'{"toolyard_table":'


class _Compiled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int = msgspec.field(name="toolyard_table")
    definition: ApiDefinition = msgspec.field(name="table")


def compiled(definition: ApiDefinition) -> bytes:
    return msgspec.json.encode(_Compiled(COMPILED_VERSION, definition))


def is_compiled(data: bytes) -> bool:
    return data.startswith(_COMPILED_START)


def decompiled(data: bytes, file: Path) -> ApiDefinition:
    """Read a compiled definition, which was checked before; raises DefinitionError for another version."""
    try:
        found = msgspec.json.decode(data, type=_Compiled)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DefinitionError(
            file, [f"{file}: not a compiled definition of this version: {error}; compile it again"]
        ) from None
    if found.version != COMPILED_VERSION:
        raise DefinitionError(
            file,
            [f"{file}: compiled in form {found.version}, not {COMPILED_VERSION}; compile it again"],
        )
    return found.definition


_Kind = TypeVar("_Kind", ApiDefinition, Overlay)
MAX_BYTES = 16 * 1024 * 1024


def load(file: Path, locale: "Locale" = "en") -> ApiDefinition:
    """Load a definition in this language, if it has it; raises DefinitionError with every problem."""
    compiled_file = file.with_name(f"{file.stem}.{locale}.json")
    if not file.is_file() and compiled_file.is_file():
        return decompiled(_read(compiled_file), compiled_file)
    data = _read(file)
    if is_compiled(data):
        return decompiled(data, file)
    from . import rules  # with tomllib 20 ms of CPU

    definition = _parse(file, data, ApiDefinition, rules.problems)
    overlay_file = file.with_name(f"{file.stem}.{locale}{file.suffix}")
    if locale == "en" or not overlay_file.is_file():
        return definition

    def check_overlay(overlay: Overlay) -> Iterator[DefinitionProblem]:
        return rules.problems_of_overlay(overlay, definition)

    return with_overlay(definition, _parse(overlay_file, _read(overlay_file), Overlay, check_overlay))


def check(text: str, file: Path) -> ApiDefinition:
    """Check a text as if it were read from that file."""
    from . import rules

    return _parse(file, text.encode(), ApiDefinition, rules.problems)


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise DefinitionError(
            file, [f"{file}: {error.strerror or error}; a definition is a .toml file"]
        ) from None
    if len(data) > MAX_BYTES:
        raise DefinitionError(file, [f"{file}: larger than {MAX_BYTES} bytes"])
    return data


def _parse(
    file: Path, data: bytes, kind: type[_Kind], check: Callable[[_Kind], Iterable[DefinitionProblem]]
) -> _Kind:
    try:
        return _convert(file, _text(file, data), kind, check)
    except RecursionError:
        raise DefinitionError(file, [f"{file}: nested too deeply"]) from None


def _convert(
    file: Path, text: str, kind: type[_Kind], check: Callable[[_Kind], Iterable[DefinitionProblem]]
) -> _Kind:
    raw, lines = _json(file, text) if file.suffix == ".json" else _toml(file, text)
    _refuse_configuration(file, raw)
    try:
        found = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        from . import (
            diagnostics,  # 100 ms of CPU for a hundred tools, only if there are problems
        )

        _refuse(file, diagnostics.structure_problems(raw, kind), lines)
        raise DefinitionError(file, [f"{file}: {error}"]) from None
    _refuse(file, check(found), lines)
    return found


def _refuse_configuration(file: Path, raw: Any) -> None:
    """Refuse a configuration file, which is easily confused with a definition."""
    for key in ("servers", "mcpServers"):
        if isinstance(raw, dict) and key in raw and "base_url" not in raw:
            raise DefinitionError(file, [f"{file}: this is a configuration with {key!r}, not a definition"])


def _text(file: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DefinitionError(file, [f"{file}:{line}: not UTF-8; save the file in that encoding"]) from None


def _toml(file: Path, text: str) -> "tuple[Any, Callable[[], LineIndex]]":
    import re
    import tomllib

    from .diagnostics import LineIndex

    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        line = at[1] if at else text.count("\n") + 1
        what = str(error)[: at.start()] if at else str(error).removesuffix(" (at end of document)")
        raise DefinitionError(file, [f"{file}:{line}: {what}{f' (column {at[2]})' if at else ''}"]) from None
    return raw, lambda: LineIndex.of_toml(text)


def _json(file: Path, text: str) -> "tuple[Any, Callable[[], LineIndex]]":
    import json

    from .diagnostics import LineIndex

    try:
        raw = json.loads(text)
        json.dumps(raw, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise DefinitionError(file, [f"{file}:{error.lineno}: {error.msg} (column {error.colno})"]) from None
    except UnicodeEncodeError:
        raise DefinitionError(file, [f"{file}: contains an unpaired surrogate such as '\\ud800'"]) from None
    return raw, lambda: LineIndex.of_json(text)


def _refuse(file: Path, problems: Iterable[DefinitionProblem], read_lines: "Callable[[], LineIndex]") -> None:
    found = list(problems)
    if not found:
        return
    lines = read_lines()
    found.sort(key=lambda problem: lines[problem.key_path])
    shown = [_format_problem(file, lines[problem.key_path], problem) for problem in found[:SHOWN]]
    raise DefinitionError(file, shown, more=len(found) - len(shown))


def _format_problem(file: Path, line: int, problem: DefinitionProblem) -> str:
    where = f"{format_path(problem.key_path)}: " if problem.key_path else ""
    hint = f"; {problem.hint}" if problem.hint else ""
    return f"{file}:{line}: {where}{problem.what}{hint}"


def with_overlay(definition: ApiDefinition, overlay: Overlay) -> ApiDefinition:
    gate = definition.gate
    if gate is not None and overlay.denied:
        gate = replace(gate, denied=overlay.denied)
    return replace(
        definition,
        title=overlay.title or definition.title,
        instructions=overlay.instructions or definition.instructions,
        gate=gate,
        errors={**definition.errors, **overlay.errors},
        shared=_with_descriptions(definition.shared, overlay.shared),
        lookups={
            name: _with_name(lookup, overlay.lookups.get(name)) for name, lookup in definition.lookups.items()
        },
        tools={
            name: _with_texts(definition, tool, overlay.tools.get(name))
            for name, tool in definition.tools.items()
        },
    )


def _with_descriptions(
    parameters: dict[str, ParameterDefinition], texts: dict[str, str]
) -> dict[str, ParameterDefinition]:
    return {
        name: replace(parameter, description=texts.get(name) or parameter.description)
        for name, parameter in parameters.items()
    }


def _with_name(lookup: Lookup, what: str | None) -> Lookup:
    return replace(lookup, what=what) if what else lookup


def _with_texts(definition: ApiDefinition, tool: ToolDefinition, texts: ToolTexts | None) -> ToolDefinition:
    if texts is None:
        return tool
    # A shared parameter with its own description in this tool becomes a parameter of the tool.
    own = [name for name in tool.use if name in texts.parameters]
    parameters = {**tool.parameters, **{name: definition.shared[name] for name in own}}
    changes: dict[str, Any] = {
        "title": texts.title or tool.title,
        "description": texts.description or tool.description,
        "parameters": _with_descriptions(parameters, texts.parameters),
        "use": tuple(name for name in tool.use if name not in own),
        "errors": {**tool.errors, **texts.errors},
        "result": replace(tool.result, said=texts.said or tool.result.said),
    }
    return replace(tool, **changes)
