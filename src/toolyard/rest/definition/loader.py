"""Loads a definition: `crm.toml` with its overlay `crm.pt.toml`, or `crm.pt.json`, compiled of both.

Owns which files are read, how their problems are reported, and the compiled form (1 ms to read where 200 KB
of TOML take 70). Checks are imported only for what is not compiled: 20 ms of CPU.
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
    from ...kit.localization import Locale
    from .diagnostics import LineIndex


FORM = 1
_MARK = b'{"toolyard_table":'


class _Compiled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    form: int = msgspec.field(name="toolyard_table")
    table: ApiDefinition


def compiled(table: ApiDefinition) -> bytes:
    return msgspec.json.encode(_Compiled(FORM, table))


def is_compiled(data: bytes) -> bool:
    return data.startswith(_MARK)


def decompiled(data: bytes, file: Path) -> ApiDefinition:
    """What `compiled` made; it was checked then. TableError when another version of Toolyard made it."""
    try:
        found = msgspec.json.decode(data, type=_Compiled)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DefinitionError(
            file, [f"{file}: not a compiled table of this version: {error}; compile it again"]
        ) from None
    if found.form != FORM:
        raise DefinitionError(
            file, [f"{file}: compiled in form {found.form}, but this version reads {FORM}; compile it again"]
        )
    return found.table


_Form = TypeVar("_Form", ApiDefinition, Overlay)
BIGGEST = 16 * 1024 * 1024


def load(file: Path, locale: "Locale" = "en") -> ApiDefinition:
    """The table of a file, in this language where it is written in it; TableError with every mistake."""
    made = file.with_name(f"{file.stem}.{locale}.json")
    if not file.is_file() and made.is_file():
        return decompiled(_read(made), made)
    data = _read(file)
    if is_compiled(data):
        return decompiled(data, file)
    from . import rules  # and with it tomllib: 20 ms of CPU that a compiled table does without

    table = _parsed(file, data, ApiDefinition, rules.problems)
    beside = file.with_name(f"{file.stem}.{locale}{file.suffix}")
    if locale == "en" or not beside.is_file():
        return table

    def suits(overlay: Overlay) -> Iterator[DefinitionProblem]:
        return rules.problems_of_overlay(overlay, table)

    return with_overlay(table, _parsed(beside, _read(beside), Overlay, suits))


def check(text: str, file: Path) -> ApiDefinition:
    """The table that is in a text, as if it were read from that file."""
    from . import rules

    return _parsed(file, text.encode(), ApiDefinition, rules.problems)


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            data = stream.read(BIGGEST + 1)
    except OSError as error:
        raise DefinitionError(file, [f"{file}: {error.strerror or error}; a table is a .toml file"]) from None
    if len(data) > BIGGEST:
        raise DefinitionError(file, [f"{file}: over {BIGGEST} bytes, which no table needs"])
    return data


def _parsed(
    file: Path, data: bytes, kind: type[_Form], further: Callable[[_Form], Iterable[DefinitionProblem]]
) -> _Form:
    try:
        return _checked(file, _text(file, data), kind, further)
    except RecursionError:
        raise DefinitionError(file, [f"{file}: nested too deeply"]) from None


def _checked(
    file: Path, text: str, kind: type[_Form], further: Callable[[_Form], Iterable[DefinitionProblem]]
) -> _Form:
    raw, lines = _json(file, text) if file.suffix == ".json" else _toml(file, text)
    _refuse_configuration(file, raw)
    try:
        found = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        from . import (
            diagnostics,  # walks it all, 100 ms of CPU for a hundred tools: only when something is wrong
        )

        _refuse(file, diagnostics.structure_problems(raw, kind), lines)
        raise DefinitionError(file, [f"{file}: {error}"]) from None
    _refuse(file, further(found), lines)
    return found


def _refuse_configuration(file: Path, raw: Any) -> None:
    """The other file of Toolyard's, which people name where a table is meant."""
    for key in ("servers", "mcpServers"):
        if isinstance(raw, dict) and key in raw and "base_url" not in raw:
            raise DefinitionError(file, [f"{file}: this is a configuration with {key!r}, not a table"])


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
        raise DefinitionError(file, [f"{file}: has half a character, as '\\ud800' is"]) from None
    return raw, lambda: LineIndex.of_json(text)


def _refuse(file: Path, found: Iterable[DefinitionProblem], read: "Callable[[], LineIndex]") -> None:
    mistakes = list(found)
    if not mistakes:
        return
    lines = read()
    mistakes.sort(key=lambda mistake: lines[mistake.keys])
    told = [_format_problem(file, lines[mistake.keys], mistake) for mistake in mistakes[:SHOWN]]
    raise DefinitionError(file, told, more=len(mistakes) - len(told))


def _format_problem(file: Path, line: int, mistake: DefinitionProblem) -> str:
    where = f"{format_path(mistake.keys)}: " if mistake.keys else ""
    hint = f"; {mistake.hint}" if mistake.hint else ""
    return f"{file}:{line}: {where}{mistake.what}{hint}"


def with_overlay(table: ApiDefinition, overlay: Overlay) -> ApiDefinition:
    gate = table.gate
    if gate is not None and overlay.denied:
        gate = replace(gate, denied=overlay.denied)
    return replace(
        table,
        title=overlay.title or table.title,
        instructions=overlay.instructions or table.instructions,
        gate=gate,
        errors={**table.errors, **overlay.errors},
        shared=_with_descriptions(table.shared, overlay.shared),
        lookups={
            name: _with_name(lookup, overlay.lookups.get(name)) for name, lookup in table.lookups.items()
        },
        tools={name: _with_texts(table, tool, overlay.tools.get(name)) for name, tool in table.tools.items()},
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


def _with_texts(table: ApiDefinition, tool: ToolDefinition, texts: ToolTexts | None) -> ToolDefinition:
    if texts is None:
        return tool
    # A shared parameter that this tool describes in its own words becomes one of its own.
    own = [name for name in tool.use if name in texts.parameters]
    parameters = {**tool.parameters, **{name: table.shared[name] for name in own}}
    changes: dict[str, Any] = {
        "title": texts.title or tool.title,
        "description": texts.description or tool.description,
        "parameters": _with_descriptions(parameters, texts.parameters),
        "use": tuple(name for name in tool.use if name not in own),
        "errors": {**tool.errors, **texts.errors},
        "result": replace(tool.result, said=texts.said or tool.result.said),
    }
    return replace(tool, **changes)
