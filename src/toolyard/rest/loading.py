"""From a file to a table: `crm.toml` with `crm.pt.toml` laid over it, or `crm.pt.json`, compiled of both.

Owns which files are read, and how their mistakes are told.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from .compiling import decompiled, is_compiled
from .mistakes import SHOWN, Mistake, TableError, spelt
from .table import Overlay, Table

if TYPE_CHECKING:
    from ..kit.languages import Locale
    from .lines import Lines

_Form = TypeVar("_Form", Table, Overlay)
BIGGEST = 16 * 1024 * 1024


def load(file: Path, locale: "Locale" = "en") -> Table:
    """The table of a file, in this language where it is written in it; TableError with every mistake."""
    made = file.with_name(f"{file.stem}.{locale}.json")
    if not file.is_file() and made.is_file():
        return decompiled(_read(made), made)
    data = _read(file)
    if is_compiled(data):
        return decompiled(data, file)
    from . import checking  # and with it tomllib: 20 ms of CPU that a compiled table does without

    table = _parsed(file, data, Table, checking.mistakes)
    beside = file.with_name(f"{file.stem}.{locale}{file.suffix}")
    if locale == "en" or not beside.is_file():
        return table
    from .overlay import laid_over

    def suits(overlay: Overlay) -> Iterator[Mistake]:
        return checking.mistakes_of_overlay(overlay, table)

    return laid_over(table, _parsed(beside, _read(beside), Overlay, suits))


def check(text: str, file: Path) -> Table:
    """The table that is in a text, as if it were read from that file."""
    from . import checking

    return _parsed(file, text.encode(), Table, checking.mistakes)


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            data = stream.read(BIGGEST + 1)
    except OSError as error:
        raise TableError(file, [f"{file}: {error.strerror or error}; a table is a .toml file"]) from None
    if len(data) > BIGGEST:
        raise TableError(file, [f"{file}: over {BIGGEST} bytes, which no table needs"])
    return data


def _parsed(
    file: Path, data: bytes, kind: type[_Form], further: Callable[[_Form], Iterable[Mistake]]
) -> _Form:
    try:
        return _checked(file, _text(file, data), kind, further)
    except RecursionError:
        raise TableError(file, [f"{file}: nested too deeply"]) from None


def _checked(
    file: Path, text: str, kind: type[_Form], further: Callable[[_Form], Iterable[Mistake]]
) -> _Form:
    raw, lines = _json(file, text) if file.suffix == ".json" else _toml(file, text)
    _refuse_configuration(file, raw)
    try:
        found = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        from . import shape  # walks it all, 100 ms of CPU for a hundred tools: only when something is wrong

        _refuse(file, shape.mistakes(raw, kind), lines)
        raise TableError(file, [f"{file}: {error}"]) from None
    _refuse(file, further(found), lines)
    return found


def _refuse_configuration(file: Path, raw: Any) -> None:
    """The other file of Toolyard's, which people name where a table is meant."""
    for key in ("servers", "mcpServers"):
        if isinstance(raw, dict) and key in raw and "base_url" not in raw:
            raise TableError(file, [f"{file}: this is a configuration with {key!r}, not a table"])


def _text(file: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TableError(file, [f"{file}:{line}: not UTF-8; save the file in that encoding"]) from None


def _toml(file: Path, text: str) -> "tuple[Any, Callable[[], Lines]]":
    import re
    import tomllib

    from .lines import Lines

    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        line = at[1] if at else text.count("\n") + 1
        what = str(error)[: at.start()] if at else str(error).removesuffix(" (at end of document)")
        raise TableError(file, [f"{file}:{line}: {what}{f' (column {at[2]})' if at else ''}"]) from None
    return raw, lambda: Lines.of_toml(text)


def _json(file: Path, text: str) -> "tuple[Any, Callable[[], Lines]]":
    import json

    from .lines import Lines

    try:
        raw = json.loads(text)
        json.dumps(raw, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise TableError(file, [f"{file}:{error.lineno}: {error.msg} (column {error.colno})"]) from None
    except UnicodeEncodeError:
        raise TableError(file, [f"{file}: has half a character, as '\\ud800' is"]) from None
    return raw, lambda: Lines.of_json(text)


def _refuse(file: Path, found: Iterable[Mistake], read: "Callable[[], Lines]") -> None:
    mistakes = list(found)
    if not mistakes:
        return
    lines = read()
    mistakes.sort(key=lambda mistake: lines[mistake.keys])
    told = [_told(file, lines[mistake.keys], mistake) for mistake in mistakes[:SHOWN]]
    raise TableError(file, told, more=len(mistakes) - len(told))


def _told(file: Path, line: int, mistake: Mistake) -> str:
    where = f"{spelt(mistake.keys)}: " if mistake.keys else ""
    hint = f"; {mistake.hint}" if mistake.hint else ""
    return f"{file}:{line}: {where}{mistake.what}{hint}"
