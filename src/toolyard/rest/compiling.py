"""A table as one file of JSON, checked and in one language: read in 1 ms, where 200 KB of TOML take 70.

Owns the form of that file. It is made for functions that start often; nobody edits it.
"""

from pathlib import Path

import msgspec

from .mistakes import TableError
from .table import Table

FORM = 1
_MARK = b'{"toolyard_table":'


class _Compiled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    form: int = msgspec.field(name="toolyard_table")
    table: Table


def compiled(table: Table) -> bytes:
    return msgspec.json.encode(_Compiled(FORM, table))


def is_compiled(data: bytes) -> bool:
    return data.startswith(_MARK)


def decompiled(data: bytes, file: Path) -> Table:
    """What `compiled` made; it was checked then. TableError when another version of Toolyard made it."""
    try:
        found = msgspec.json.decode(data, type=_Compiled)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TableError(
            file, [f"{file}: not a compiled table of this version: {error}; compile it again"]
        ) from None
    if found.form != FORM:
        raise TableError(
            file, [f"{file}: compiled in form {found.form}, but this version reads {FORM}; compile it again"]
        )
    return found.table
