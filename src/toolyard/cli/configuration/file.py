"""A configuration file that a command edits: read, changed in memory, checked, written in one step.

The new text is loaded before it is written, so that the file is never broken. Between reading and writing may
be minutes, in which a server is tried: what others write meanwhile stays.
"""

import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import click

from ...config import Config, ConfigError, check, find
from ...config.files import display_path, has_comments, is_toml, parse
from ...config.loader import config_files, is_foreign, server_tables
from ...config.servers import COMMON, SWITCHES, ServerEntry
from ...file_lock import locked
from ...vault.references import resolve
from ..commands.options import F
from ..json_values import as_list, as_object
from ..ui.messages import CommandError, printable
from . import toml_text
from .loader import config_error

DEFAULT_FILE = "toolyard.toml"
LOCK_SECONDS = 5.0
"""Longer than a command needs to write. Then somebody holds the folder's lock for another purpose."""
NEW_FILE_MODE = 0o600  # there may be secrets in it
# Settings of the user that do not depend on how a server is reached.
KEPT_KEYS = (*COMMON, *(key for key in SWITCHES if key != "type"))


def edited_file_option(command: F) -> F:
    return click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"The file to edit. Default: the one that is found, else ./{DEFAULT_FILE}.",
    )(command)


def config_path(config: Path | None) -> Path:
    """The file to edit, as an absolute path with links resolved, so that a link stays a link."""
    return Path(os.path.realpath(os.path.expanduser(config or find() or DEFAULT_FILE)))


class ConfigFile:
    """A file being edited. Nothing is written before `save`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_new = not path.exists()
        self._before: str = "" if self.is_new else _read(path)
        self._text = self._before
        self.data = self._parse()
        self._found = self.tables
        self._changes: dict[str, Mapping[str, Any] | None] = {}
        """The fields of servers that are set, and None for those that are removed."""

    @property
    def label(self) -> str:
        return display_path(self.path)

    @property
    def is_foreign(self) -> bool:
        """Whether it is another program's, which does not know our keys."""
        return is_foreign(self.path, self.data, asked=True)

    @property
    def tables(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The entries of this file, without its includes, by table and name."""
        return {
            table: {name: dict(as_object(fields)) for name, fields in as_object(held).items()}
            for table, held in server_tables(self.data)
        }

    @property
    def servers(self) -> dict[str, str]:
        """The table of each server in this file."""
        return {name: table for table, entries in self.tables.items() for name in entries}

    def adapt_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Adapt fields to a foreign file: other programs need a `type`, and have no modules."""
        if not self.is_foreign:
            return fields
        if "module" in fields:
            raise CommandError(
                f"{self.label} is another program's, which has no modules", "--config toolyard.toml"
            )
        rest = {key: value for key, value in fields.items() if key != "transport"}
        kind = "stdio" if "command" in fields else "sse" if fields.get("transport") == "sse" else "http"
        return {"type": kind, **rest}

    @property
    def included(self) -> list[ServerEntry]:
        """The servers of the included files."""
        if self.is_new:
            return []
        try:
            return [entry for source in config_files(self.path)[1:] for entry in source.entries]
        except ConfigError as error:
            raise config_error(error) from None

    def included_from(self, name: str) -> str | None:
        return next((display_path(entry.file) for entry in self.included if entry.name == name), None)

    def set_server(self, name: str, fields: Mapping[str, Any]) -> None:
        """Add a server, or replace its fields; the settings in KEPT_KEYS stay."""
        self._change(self.servers.get(name, self._table), name, fields)

    def remove_server(self, name: str) -> None:
        self._change(self.servers[name], name, None)

    def check(self) -> Config:
        try:
            return check(self.path, self._text, resolve=resolve)
        except ConfigError as error:
            raise config_error(error) from None

    def is_loadable(self) -> bool:
        """Whether the file on disk can be loaded."""
        try:
            check(self.path, self._before)
        except ConfigError:
            return False
        return True

    def save(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                with suppress(OSError):  # not every disk has locks
                    stack.enter_context(locked(self.path.parent, patience=LOCK_SECONDS))
                self._catch_up()
                write_atomically(self.path, self._text)
        except OSError as error:
            raise CommandError(f"cannot write {self.label!r}: {error.strerror or error}") from None

    def _catch_up(self) -> None:
        """Make the same changes to what others have written since the file was read."""
        now = _read(self.path) if self.path.exists() else ""
        if now == self._before:
            return
        before, changes = self._found, self._changes
        self._before = self._text = now
        self.data, was_loadable = self._parse(), self.is_loadable()
        for name, fields in changes.items():
            if _entry(self.tables, name) != _entry(before, name):
                raise CommandError(f"{name!r} was changed in {self.label} at the same time", "run it again")
            if fields is not None:
                self.set_server(name, fields)
            elif name in self.servers:
                self.remove_server(name)
        if was_loadable:
            self.check()

    def _parse(self) -> dict[str, Any]:
        try:
            return parse(self._text, self.path)
        except ConfigError as error:
            raise config_error(error) from None

    @property
    def _table(self) -> str:
        """The table for a new server."""
        present = [table for table, _ in server_tables(self.data)] or ["mcpServers"]
        return present[-1] if self.is_foreign else "servers"

    def _change(self, table: str, name: str, fields: Mapping[str, Any] | None) -> None:
        """Set or remove the entry, and check that nothing else changes, whatever form the file has."""
        self._changes[name] = fields
        wanted = _entries(self.data)
        if fields is None:
            del wanted[table, name]
        else:
            wanted[table, name] = {**fields, **_kept_fields(as_object(wanted.get((table, name))), fields)}
        try:
            text = self._changed(table, name, fields)
            data = parse(text, self.path)
        except (toml_text.TomlEditError, ConfigError):
            data = text = None
        if data is None or text is None or _entries(data) != wanted:
            raise CommandError(f"{self.label} cannot be edited safely", "change it in an editor")
        self._text, self.data = text, data

    def _changed(self, table: str, name: str, fields: Mapping[str, Any] | None) -> str:
        if not is_toml(self.path):
            return self._changed_json(table, name, fields)
        if fields is None:
            return toml_text.remove_entry(self._text, table, name)
        if name in self.servers:
            return toml_text.replace_entry(self._text, table, name, fields, KEPT_KEYS)
        return toml_text.add_entry(self._text, table, name, fields)

    def _changed_json(self, table: str, name: str, fields: Mapping[str, Any] | None) -> str:
        if has_comments(self._text):
            raise CommandError(f"{self.label} has comments, which would be lost", "change it in an editor")
        data = self._parse()
        held: Any = data
        for key in table.split("."):
            held = held.setdefault(key, {})
        if fields is None:
            del held[name]
        else:
            held[name] = {**fields, **_kept_fields(as_object(held.get(name)), fields)}
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _entry(tables: Mapping[str, Mapping[str, dict[str, Any]]], name: str) -> dict[str, Any] | None:
    return next((entries[name] for entries in tables.values() if name in entries), None)


def _kept_fields(old: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in old.items() if key in KEPT_KEYS and key not in fields}


def _entries(data: Mapping[str, Any]) -> dict[Any, Any]:
    """Everything in a file, with the servers one by one."""
    tables = dict(server_tables(data))
    rest = {key: value for key, value in data.items() if key not in tables and key != "mcp"}
    servers = {
        (table, name): item for table, held in tables.items() for name, item in as_object(held).items()
    }
    return rest | servers


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"cannot read {display_path(path)!r}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise CommandError(f"{display_path(path)} is not UTF-8 (byte {error.start})") from None


def write_atomically(path: Path, text: str) -> None:
    """Replace the file in one step, and keep its mode and its owner, who may not be root."""
    known = path.stat() if path.exists() else None
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if known is not None and hasattr(os, "chown"):
            with suppress(PermissionError):  # another user's file, in a folder where this one may write
                os.chown(draft, known.st_uid, known.st_gid)
        os.chmod(draft, NEW_FILE_MODE if known is None else known.st_mode & 0o7777)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


_SECRET_NAMES = re.compile(
    r"token|secret|passw|passphrase|api.?key|access.?key|private.?key|auth|credential|cookie|^key$|_key$",
    re.I,
)
_SECRET_VALUES = re.compile(
    r"(?:bearer|basic|token)\s+\S|(?:sk|pk|rk)[-_]\w|gh[pousr]_|github_pat_|xox[a-z]-|AKIA|eyJ", re.I
)


def secrets_in(fields: Mapping[str, Any]) -> Iterator[str]:
    """The keys, as `env.TOKEN`, whose values look like secrets; `${VARIABLE}` does not."""
    for table in ("env", "headers"):
        for name, value in as_object(fields.get(table)).items():
            is_literal = isinstance(value, str) and value and "${" not in value
            if is_literal and (_SECRET_NAMES.search(name) or _SECRET_VALUES.match(value)):
                yield f"{table}.{name}"


def hidden_unless_reference(value: str) -> str:
    return value if "${" in value else "***"


def shown_start(fields: Mapping[str, Any]) -> str:
    """What an entry starts or reaches, whole and on one line: its variables or headers, then the command."""
    if "command" in fields:
        words = [str(fields["command"]), *map(str, as_list(fields.get("args")))]
        given, sign = as_object(fields.get("env")), "="
    else:
        words = [f"{key} {fields[key]}" for key in ("url", "module") if key in fields]
        given, sign = as_object(fields.get("headers") or fields.get("options")), ": "
    text = shlex.join([*(f"{name}{sign}{value}" for name, value in given.items()), *words])
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")
