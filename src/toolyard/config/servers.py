"""Server entries: makes a `ServerConfig` from a table in a file. Also names the bundled servers.

Entries under `servers` are ours and checked strictly: an unknown key is an error. Entries under
`mcpServers`, and those in other programs' files, may have unknown keys, which are ignored.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..wire.text import printable
from .errors import ConfigValueError, UnusableEntryError, nearest, nearest_or_all
from .models import Composio, Http, InProcess, ResultLimits, ServerConfig, ServerResults, Stdio
from .names import check_server_name
from .server_auth import KeyAuth
from .server_auth_table import server_auth
from .values import (
    Reader,
    flag,
    header_name,
    header_names,
    headers,
    integer,
    kind_of,
    names,
    nonempty,
    one_of,
    renames,
    seconds,
    short_text,
    size,
    size_or_zero,
    substitute,
    table,
    template,
    texts,
    url,
    variables,
)

BUNDLED = {
    "demo": "harmless tools for a first try",
    "sql": "questions to a database, in SQL or in words",
    "schema": "the tables, columns, relations and values of a database",
    "memory": "notes that an agent keeps between conversations",
    "sessions": "search in earlier conversations",
    "render": "logs, errors and services of Render, or of log files",
    "browser": "a web browser",
    "local_toolkit": "files, archives and research in a workspace",
    "workbench": "Python and shell commands in a box, which can call the other tools",
    "video_audio": "video and audio files: convert, cut, join, overlay",
    "rest": "any REST API, described by a table",
    "tiflux": "TiFlux, a help desk: tickets, clients, chats",
    "youtube": "videos, audio, subtitles and playlists of YouTube and other sites",
    "zai_vision": "questions about images and videos to a vision model",
}

OWN_PROGRAM = "toolyard"
"""A command that starts this installation, also where it is not on PATH: `toolyard envs run …`."""


def module_of(name: str) -> str:
    """The module of a bundled server; any other name unchanged."""
    return f"toolyard.servers.{name}" if name in BUNDLED else name


TABLE_SUFFIXES = (".toml", ".json")


def is_table(target: str) -> bool:
    """Whether the target is the file of a REST API's table, which the server `rest` serves."""
    return target.endswith(TABLE_SUFFIXES)


def module_and_options(target: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The module that serves a target, and its options, which for a table include its path."""
    if is_table(target):
        return module_of("rest"), {"table": target, **options}
    return module_of(target), options


_LIMITS: dict[str, Reader] = {
    "shape": flag,
    "max_bytes": size,
    "max_items": integer(1),
    "max_lines": integer(1),
    "bounded": size_or_zero,
}


def _results(value: Any) -> ServerResults:
    """Limits on results, for the server and by its tools."""
    fields = dict(table(value))
    tools = {name: ResultLimits(**_limits(item)) for name, item in table(fields.pop("tools", {})).items()}
    return ServerResults(tools=tools, **_limits(fields))


def _limits(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in table(value).items():
        if key not in _LIMITS:
            raise ConfigValueError(f"has an unknown key {key!r}", nearest_or_all(key, (*_LIMITS, "tools")))
        try:
            found[key] = _LIMITS[key](item)
        except ConfigValueError as error:
            raise ConfigValueError(f"has an invalid {key!r}: it {error.message}", error.hint) from None
    return found


def _options(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigValueError(
            f"must be a table, not {kind_of(value)}", 'such as options = { locale = "pt" }'
        )
    return table(value)


def _era(value: Any) -> str:
    """`auto` is an older word for the default."""
    return "caller" if value == "auto" else one_of("caller", "modern")(value)


# The keys of each kind of server.
KINDS: dict[str, dict[str, Reader]] = {
    "command": {"args": texts, "env": variables, "cwd": nonempty, "max_memory": size, "era": _era},
    "url": {
        "headers": headers,
        "transport": one_of("auto", "sse"),
        "era": _era,
        "session_url": url,
        "session_header": header_name,
    },
    "module": {"options": _options},
    "composio": {
        "api_key": nonempty,
        "user_id": template("user", "tenant", "agent", "thread"),
        "default_user": nonempty,
        "base_url": url,
        "api": one_of("router", "labs"),
        "toolkits": names,
        "callback_url": url,
    },
}
MARKED = ("command", "url", "module")
"""The kinds that are recognised by the key of the same name; the others by `type`."""
KEYED = ("url", "module")
"""The kinds of server that can get a caller's own key with each call."""
MAX_DESCRIPTION = 500
COMMON: dict[str, Reader] = {
    "description": short_text(MAX_DESCRIPTION),
    "allow": names,
    "deny": names,
    "rename": renames,
    "pinned": names,
    "timeout": seconds,
    "connect_timeout": seconds,
    "start_timeout": seconds,
    "concurrency": integer(1),
    "retries": integer(0),
    "max_result": size,
    "start": one_of("lazy", "eager"),
    "results": _results,
    "caller_keys": header_names,
    "auth": server_auth,
}
SWITCHES: dict[str, Reader] = {
    "enabled": flag,
    "type": one_of("stdio", "http", "streamable-http", "sse", "composio"),
}
TYPES = {
    "command": ("stdio",),
    "url": ("http", "streamable-http", "sse"),
    "module": (),
    "composio": ("composio",),
}
_READERS: dict[str, Reader] = {
    "command": nonempty,
    "url": url,
    "module": nonempty,
    **{key: read for keys in KINDS.values() for key, read in keys.items()},
    **COMMON,
    **SWITCHES,
}
KEYS = tuple(_READERS)

# Other spellings of our keys and values. Their `timeout` is ignored: some write seconds, others milliseconds.
_THEIR_URLS = ("serverUrl", "httpUrl")
_THEIR_TRANSPORTS = ("http", "streamable-http", "streamableHttp", "streamable_http", "stdio")
_THEIR_OWN = ("timeout",)


class ServerEntry(Struct, frozen=True):
    """A server as written in a file; `foreign` if it is another program's file."""

    name: str
    fields: dict[str, Any]
    file: Path
    table: str
    foreign: bool

    @property
    def label(self) -> str:
        return f"[{self.table}.{self.name}]"

    @property
    def enabled(self) -> bool:
        turned_off = self.fields.get("enabled") is False
        return not turned_off and not (self.foreign and self.fields.get("disabled") is True)


def server_config(entry: ServerEntry, env: Mapping[str, str]) -> ServerConfig:
    """Check an entry. Raises ConfigValueError, or UnusableEntryError if this machine lacks something."""
    check_server_name(entry.name)
    fields = _translated(entry.fields) if entry.foreign else entry.fields
    kind = _kind(fields)
    values = _values(_checked(fields, kind, entry.foreign), env)
    _apply_type(values, kind)
    own = {key: values[key] for key in (kind, *KINDS[kind]) if key in values}
    folder = entry.file.parent
    where: Stdio | Http | InProcess | Composio
    if kind == "composio":
        where = _composio(own, env)
    elif kind == "command":
        own["command"] = os.path.expanduser(own["command"])
        if "cwd" in own:
            own["cwd"] = absolute(own["cwd"], folder)
        where = Stdio(**own)
    elif kind == "url":
        where = Http(**own)
    else:
        where = _in_process(own["module"], own.get("options", {}), folder)
    common = {key: values[key] for key in COMMON if key in values}
    if common.get("caller_keys") and kind not in KEYED:
        raise ConfigValueError(
            f"has 'caller_keys', which {kind!r} does not support", "use it with 'url' or 'module'"
        )
    if common.get("auth") is not None:
        _check_auth(where, common)
    return ServerConfig(name=entry.name, where=where, **common)


def _check_auth(where: Stdio | Http | InProcess | Composio, common: dict[str, Any]) -> None:
    auth = common["auth"]
    if isinstance(auth, KeyAuth):
        _check_key(where, auth, common.get("caller_keys", ()))
        return
    if not isinstance(where, Http):
        raise ConfigValueError("has 'auth', which is for servers at an address", "use it with 'url'")
    _check_header(where, "Authorization", common.get("caller_keys", ()))


def _check_header(where: Http, header: str, caller_keys: tuple[str, ...]) -> None:
    """A server has one way to know who asks."""
    if any(name.lower() == header.lower() for name in where.headers):
        raise ConfigValueError(
            f"has 'auth' and the header {header} together", "keep only one of them: a server has one way"
        )
    if header.lower() in caller_keys:
        raise ConfigValueError(
            f"has 'auth' and callers' own {header} together", "keep only one of them: a server has one way"
        )


def _check_key(
    where: Stdio | Http | InProcess | Composio, auth: KeyAuth, caller_keys: tuple[str, ...]
) -> None:
    if isinstance(where, Composio):
        raise ConfigValueError("has 'auth', and Composio has its 'api_key'", "remove 'auth'")
    if isinstance(where, Stdio):
        if not auth.variable:
            raise ConfigValueError(
                "has auth = 'api_key' without a variable for the program",
                'as in auth = { mode = "api_key", variable = "GITHUB_TOKEN" }',
            )
        if auth.variable in where.env:
            raise ConfigValueError(
                f"has {auth.variable!r} in 'env' and in 'auth'", "keep only one of them: a server has one way"
            )
        return
    if auth.variable:
        raise ConfigValueError("has 'variable' in its auth, which is for programs", "use it with 'command'")
    if isinstance(where, Http):
        _check_header(where, auth.sent_header, caller_keys)
    elif caller_keys or auth.prefix is not None:
        other = "caller_keys" if caller_keys else "prefix"
        raise ConfigValueError(
            f"has auth = 'api_key' and {other!r} together",
            f"remove {other!r}: the server takes the key itself",
        )


def _composio(own: dict[str, Any], env: Mapping[str, str]) -> Composio:
    """Missing values come from the variables that Composio's own clients read."""
    who = own.get("user_id", "")
    if "{thread}" in who and "{tenant}" not in who and "{user}" not in who:
        # A caller chooses its thread, and so could choose to be another tenant's.
        raise ConfigValueError(
            "has a 'user_id' with {thread} but without {user} or {tenant}", "add {user} to it"
        )
    if "api_key" not in own and not env.get("COMPOSIO_API_KEY"):
        raise UnusableEntryError("has no 'api_key' and COMPOSIO_API_KEY is not set", "set one of them")
    own.setdefault("api_key", env.get("COMPOSIO_API_KEY", ""))
    if "base_url" not in own and env.get("COMPOSIO_BASE_URL"):
        own["base_url"] = url(env["COMPOSIO_BASE_URL"])
    own.setdefault("default_user", env.get("DEFAULT_USER_ID", ""))
    return Composio(**own)


def own_fields(entry: ServerEntry) -> dict[str, Any]:
    """The entry in the form of our own files: known keys only, variables not filled in."""
    fields = _translated(entry.fields) if entry.foreign else dict(entry.fields)
    kind = _kind(fields)
    fields = _checked(fields, kind, entry.foreign)
    if fields.pop("type", None) == "sse":
        fields.setdefault("transport", "sse")
    fields = {key: value for key, value in fields.items() if value not in ([], {})}
    if isinstance(fields.get("cwd"), str) and not fields["cwd"].startswith(("~", "${")):
        fields["cwd"] = absolute(fields["cwd"], entry.file.parent)
    if isinstance(fields.get("module"), str):
        fields["module"] = _located(fields["module"], entry.file.parent)
    return fields if entry.enabled else fields | {"enabled": False}


def _kind(fields: Mapping[str, Any]) -> str:
    if fields.get("type") == "composio":
        return "composio"
    given = [key for key in MARKED if key in fields]
    if not given:
        near = next((hint for key in fields if (hint := nearest(key, MARKED))), None)
        raise ConfigValueError("has no 'command', 'url' or 'module'", near or "add one of them")
    if len(given) > 1:
        raise ConfigValueError(f"has {' and '.join(map(repr, given))} together", "keep only one of them")
    return given[0]


def check_keys(fields: Mapping[str, Any]) -> None:
    for key in fields:
        if key not in _READERS:
            raise ConfigValueError(f"has an unknown key {key!r}", nearest_or_all(key, KEYS))


def _checked(fields: dict[str, Any], kind: str, foreign: bool) -> dict[str, Any]:
    """The fields without those of other kinds, which are errors in our own entries."""
    others = {key: other for other, keys in KINDS.items() if other != kind for key in keys}
    others |= {key: key for key in MARKED if key != kind}
    for key in fields:
        if key in others and not foreign:
            raise ConfigValueError(f"has {key!r}, which belongs to {others[key]!r}, not to {kind!r}")
    return {key: value for key, value in fields.items() if key in _READERS and key not in others}


def _values(fields: dict[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """Reads every field before it reports a variable that is not set: typos are reported first."""
    values: dict[str, Any] = {}
    missing: UnusableEntryError | None = None
    for key, given in fields.items():
        try:
            values[key] = _READERS[key](substitute(given, env, key))
        except UnusableEntryError as error:
            missing = missing or error
        except ConfigValueError as error:
            raise ConfigValueError(f"{key!r} {error.message}", error.hint) from None
    if missing is not None:
        raise missing
    return values


def _apply_type(values: dict[str, Any], kind: str) -> None:
    """`type` repeats what the keys say, except that `sse` selects the old transport."""
    said = values.get("type")
    if said is None:
        return
    if said not in TYPES[kind]:
        raise ConfigValueError(f"has type {said!r} but also {kind!r}", "leave out 'type'")
    if said == "sse":
        values.setdefault("transport", "sse")


def _translated(fields: dict[str, Any]) -> dict[str, Any]:
    """Translate another program's entry to our keys."""
    ours = {key: value for key, value in fields.items() if value is not None and key not in _THEIR_OWN}
    described = ours.pop("description", None)
    if isinstance(described, str):
        # Written for people: an invalid one is no reason to refuse the entry.
        line = " ".join(printable(described.replace("\0", " ")).split())[:MAX_DESCRIPTION]
        ours["description"] = line.replace("${", "$${")
    for key in _THEIR_URLS:
        if key in ours and "url" not in ours:
            ours["url"] = ours.pop(key)
    if ours.get("transport") in _THEIR_TRANSPORTS:
        del ours["transport"]
    if ours.get("type") == "streamableHttp":
        ours["type"] = "streamable-http"
    if isinstance(ours.get("env"), dict):
        ours["env"] = {key: value for key, value in table(ours["env"]).items() if value is not None}
    return ours


def absolute(path: str, folder: Path) -> str:
    return str(folder / os.path.expanduser(path))


def _in_process(module: str, options: dict[str, Any], folder: Path) -> InProcess:
    """A REST table, in any form of target, is also looked for beside the configuration file."""
    if is_table(module):
        module, options = "rest", {"table": module, **options}
    if module == "rest" and isinstance(options.get("table"), str):
        options = {**options, "table": absolute(options["table"], folder)}
    return InProcess(module=_located(module, folder), options=options)


def _located(module: str, folder: Path) -> str:
    """A file is looked for beside the configuration file, whatever the current folder is."""
    place, colon, attribute = module.rpartition(":")
    if not colon or os.sep in attribute or attribute.endswith(".py"):
        place, colon, attribute = module, "", ""
    is_file = place.endswith(".py") or "/" in place or os.sep in place
    return f"{absolute(place, folder)}{colon}{attribute}" if is_file else module_of(module)
