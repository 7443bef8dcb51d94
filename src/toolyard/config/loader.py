"""`load`, `check` and `find`: make a `Config` from a file and the files it includes."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..file_access import is_missing
from .caller_tables import access, audit, auth, limits
from .callers import AuthConfig
from .env_file import with_env_file
from .errors import ConfigError, ConfigValueError, UnusableEntryError, nearest_or_all
from .files import display_path, is_toml, parse, read
from .models import (
    Broken,
    Composio,
    Config,
    EnvFile,
    GatewayConfig,
    InProcess,
    ResolveReferences,
    ServerConfig,
)
from .names import ServerNames
from .references import ResolvedEnvironment, SecretReference, read_files, references_in
from .server_auth import OAuthAuth
from .servers import ServerEntry, check_keys, module_of, server_config
from .tables import gateway, results, search, state, store, telemetry, vault
from .values import nonempty, table, texts

_OURS = (
    "include",
    "env_file",
    "gateway",
    "search",
    "state",
    "vault",
    "results",
    "store",
    "telemetry",
    "auth",
    "access",
    "limits",
    "audit",
)
KEYS = (*_OURS, "servers", "mcpServers")


class ConfigSource(Struct, frozen=True):
    """One file; `foreign` if it belongs to another program: then only its servers are read."""

    file: Path
    data: dict[str, Any]
    foreign: bool
    entries: tuple[ServerEntry, ...]


def config_files(path: Path, draft: str | None = None) -> list[ConfigSource]:
    """The file and everything it includes, each once, the file itself first.

    `draft` replaces the content of the file.
    """
    found: dict[Path, ConfigSource] = {}
    _gather(Path(os.path.abspath(path.expanduser())), (), found, draft)
    return list(found.values())


def _gather(file: Path, above: tuple[Path, ...], found: dict[Path, ConfigSource], draft: str | None) -> None:
    identity = Path(os.path.realpath(file))
    if identity in above:
        circle = " -> ".join(display_path(step) for step in (*above[above.index(identity) :], identity))
        raise ConfigError(f"circular include: {circle}", "remove one of the includes")
    if identity in found:
        return
    found[identity] = source = _source(file, read(file) if draft is None else parse(draft, file), not above)
    for name in _includes(source):
        included = file.parent / os.path.expanduser(name)
        if is_missing(included):
            raise ConfigError(
                f"{display_path(file)} includes {name!r}, which does not exist",
                f"looked for it at {included}",
            )
        _gather(Path(os.path.abspath(included)), (*above, identity), found, None)


def _source(file: Path, data: dict[str, Any], asked: bool) -> ConfigSource:
    foreign = is_foreign(file, data, asked)
    if not foreign:
        for key in data:
            if key not in KEYS:
                raise ConfigError(f"{display_path(file)}: unknown key {key!r}", nearest_or_all(key, KEYS))
    elif not any(server_tables(data)):
        raise ConfigError(
            f"{display_path(file)} has neither 'mcpServers' nor 'servers'", "it lists no MCP servers"
        )
    return ConfigSource(file, data, foreign, tuple(_entries(file, data, foreign)))


def is_foreign(file: Path, data: Mapping[str, Any], asked: bool) -> bool:
    if is_toml(file) or file.name == "toolyard.json":
        return False
    # Another program may use one of our table names, but not only our table names.
    if any(key in data for key in _OURS) and all(key in KEYS for key in data):
        return False
    # `servers` alone is another program's if the file is included, or has the name or a key of such a file.
    return not asked or file.name.endswith("mcp.json") or "mcpServers" in data or "inputs" in data


def server_tables(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The tables that list servers: key and value of each."""
    for key in ("servers", "mcpServers"):
        if key in data:
            yield key, data[key]
    inside = data.get("mcp")  # VS Code's settings.json
    if isinstance(inside, dict) and "servers" in inside:
        yield "mcp.servers", inside["servers"]


def _entries(file: Path, data: Mapping[str, Any], foreign: bool) -> Iterator[ServerEntry]:
    for key, value in server_tables(data):
        try:
            items = table(value)
        except ConfigValueError as error:
            raise ConfigError(f"{display_path(file)}: {key!r} {error.message}") from None
        for name, fields in items.items():
            yield _entry(name, fields, file, key, lenient=foreign or key == "mcpServers")


def _entry(name: str, fields: Any, file: Path, key: str, lenient: bool) -> ServerEntry:
    try:
        entry = ServerEntry(name, table(fields), file, key, lenient)
        if not lenient:
            check_keys(entry.fields)
        return entry
    except ConfigValueError as error:
        if lenient:
            return ServerEntry(name, {}, file, key, lenient)
        raise ConfigError(f"{display_path(file)}: [{key}.{name}] {error.message}", error.hint) from None


def _includes(source: ConfigSource) -> tuple[str, ...]:
    given: Any = [] if source.foreign else source.data.get("include", [])
    try:
        return tuple(nonempty(name) for name in texts(given))
    except ConfigValueError as error:
        hint = 'as in include = ["~/.cursor/mcp.json"]'
        raise ConfigError(f"{display_path(source.file)}: 'include' {error.message}", hint) from None


FILES = ("toolyard.toml", "toolyard.json")


def load(path: Path, env: Mapping[str, str] = os.environ, resolve: ResolveReferences | None = None) -> Config:
    """Read a file and everything it includes.

    Raises ConfigError for mistakes that the user has to fix. An entry that lacks a variable or a secret, or
    an invalid entry of another program, is marked as broken and does not affect the others. Without
    `resolve`, only references to files are known.
    """
    return _build(config_files(path), env, resolve)


def load_places(path: Path, env: Mapping[str, str] = os.environ) -> Config:
    """Only what says where data and secrets are: `[gateway]`, `[state]` and `[vault]`. Looks up no secret."""
    read = config_files(path)
    return resolved_environment(read, environment(read, env)[0], None)[0]


def check(
    path: Path,
    draft: str,
    env: Mapping[str, str] = os.environ,
    resolve: ResolveReferences | None = None,
) -> Config:
    """Return what `load` would return if the file contained `draft`."""
    return _build(config_files(path, draft), env, resolve)


def _build(read: list[ConfigSource], env: Mapping[str, str], resolve: ResolveReferences | None) -> Config:
    asked = read[0]
    all_entries = [entry for source in read for entry in source.entries]
    entries = _unique(all_entries)
    own = {} if asked.foreign else asked.data
    env, env_file = environment(read, env)
    base, resolved = resolved_environment(read, env, resolve)
    settings = base.gateway
    foreign_files = {source.file for source in read if source.foreign}
    servers, broken = _servers(entries, lambda entry: env if entry.file in foreign_files else resolved)
    for source in read:
        _check_tables(source, resolved)
    _check_bare_view(settings, [entry.name for entry in entries], asked.file)
    callers = auth(own, asked.file, resolved)
    _check_caller_keys(servers, callers)
    servers = tuple(_with_subject_issuer(server, callers) for server in servers)
    servers = _with_composio_user(servers)
    return Config(
        servers=servers,
        broken=broken,
        disabled=_disabled(all_entries),
        gateway=settings,
        search=search(own, asked.file),
        state=base.state,
        vault=base.vault,
        results=results(own, asked.file),
        store=store(own, asked.file, resolved),
        telemetry=telemetry(own, asked.file),
        auth=callers,
        access=access(own, asked.file),
        limits=limits(own, asked.file),
        audit=audit(own, asked.file, resolved),
        files=tuple(source.file for source in read),
        references=base.references,
        env_file=env_file,
    )


def environment(read: list[ConfigSource], env: Mapping[str, str]) -> tuple[Mapping[str, str], EnvFile | None]:
    """The variables, with those of the file that our own main file names for them."""
    main = read[0]
    return with_env_file({} if main.foreign else main.data, main.file, env)


def _references(read: list[ConfigSource]) -> tuple[SecretReference, ...]:
    """Those in our own files. Another program's file must not get at our secrets."""
    found = [references_in(source.data) for source in read if not source.foreign]
    return tuple(sorted(set[SecretReference]().union(*found)))


def resolved_environment(
    read: list[ConfigSource], env: Mapping[str, str], resolve: ResolveReferences | None
) -> tuple[Config, Mapping[str, str]]:
    """The tables that say where secrets are, and the variables together with the secrets."""
    main = read[0]
    own = {} if main.foreign else main.data
    references = _references(read)
    found = dict(read_files(references, main.file.parent))
    # Secrets in these tables can be in files only: the tables say where the others are.
    first = ResolvedEnvironment(env, found) if references else env
    base = Config(
        gateway=GatewayConfig() if main.foreign else gateway(own, main.file, first),
        state=state(own, main.file, first),
        vault=vault(own, main.file, first),
        files=(main.file,),
        references=references,
    )
    others = [one for one in references if one.kind != "file"]
    if others and resolve is not None:
        found.update(resolve(base, others))
    return base, ResolvedEnvironment(env, found) if references else env


def _servers(
    entries: list[ServerEntry], env_of: Callable[[ServerEntry], Mapping[str, str]]
) -> tuple[tuple[ServerConfig, ...], tuple[Broken, ...]]:
    servers: list[ServerConfig] = []
    broken: list[Broken] = []
    names = ServerNames()
    for entry in entries:
        try:
            names.claim(entry.name)
            servers.append(server_config(entry, env_of(entry)))
        except ConfigValueError as error:
            if not entry.foreign and not isinstance(error, UnusableEntryError):
                raise ConfigError(
                    f"{display_path(entry.file)}: {entry.label} {error.message}", error.hint
                ) from None
            reason = f"{error.message}; {error.hint}" if error.hint else error.message
            broken.append(Broken(name=entry.name, reason=reason))
    return tuple(servers), tuple(broken)


def find(start: Path | None = None) -> Path | None:
    """The file in this folder, or else the user's own."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says to ignore a relative path.
    base = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~")) / ".config"
    here, own = Path.cwd() if start is None else start, base / "toolyard"
    found = [here / name for name in FILES if os.path.isfile(here / name)]
    # The user's own counts even if it cannot be seen: whoever reads it is told why.
    return next(iter(found), None) or next((own / name for name in FILES if not is_missing(own / name)), None)


def _unique(entries: list[ServerEntry]) -> list[ServerEntry]:
    """The enabled entries; raises ConfigError if two have the same name."""
    found: dict[str, ServerEntry] = {}
    for entry in entries:
        if not entry.enabled:
            continue
        other = found.setdefault(entry.name, entry)
        if other is not entry:
            raise ConfigError(
                f"server {entry.name!r} is defined twice: {other.label} in {display_path(other.file)}"
                f" and {entry.label} in {display_path(entry.file)}",
                "rename one of them, or turn one off with enabled = false",
            )
    return list(found.values())


def _disabled(entries: list[ServerEntry]) -> tuple[str, ...]:
    """The names that have only disabled entries."""
    on = {entry.name for entry in entries if entry.enabled}
    return tuple(dict.fromkeys(entry.name for entry in entries if entry.name not in on))


def _check_tables(source: ConfigSource, env: Mapping[str, str]) -> None:
    """Check the tables of an included file. They are not used, but mistakes in them are reported."""
    if not source.foreign:
        gateway(source.data, source.file, env)
        search(source.data, source.file)
        results(source.data, source.file)
        telemetry(source.data, source.file)
        auth(source.data, source.file, env)
        access(source.data, source.file)
        limits(source.data, source.file)
        audit(source.data, source.file, env)


def _check_caller_keys(servers: tuple[ServerConfig, ...], callers: AuthConfig) -> None:
    """A token that was shown to the gateway is never passed on."""
    for server in servers:
        if callers.knows_callers and "authorization" in server.caller_keys:
            raise ConfigError(
                f"server {server.name!r} takes callers' keys from 'authorization', which [auth] needs",
                'name another header, as in caller_keys = ["x-api-key"]',
            )


def _with_subject_issuer(server: ServerConfig, callers: AuthConfig) -> ServerConfig:
    """With the issuer whose tokens are exchanged for the server's, so that no other one's are shown there."""
    if not isinstance(server.auth, OAuthAuth) or not server.acts_for_caller:
        return server
    known = [issuer.issuer for issuer in callers.issuers]
    named = server.auth.subject_issuer
    if not known:
        raise ConfigError(
            f"server {server.name!r} exchanges callers' tokens, and [auth] accepts none of an issuer",
            "add [[auth.issuers]]: an API key or a login here cannot be exchanged",
        )
    if named and named not in known:
        raise ConfigError(
            f"server {server.name!r} has the 'subject_issuer' {named!r}, which [auth] does not accept",
            f"name one of [[auth.issuers]]: {', '.join(known)}",
        )
    if not named and len(known) > 1:
        raise ConfigError(
            f"server {server.name!r} exchanges callers' tokens, and [auth] has several issuers of them",
            f"add subject_issuer to its auth, one of: {', '.join(known)}",
        )
    return replace(server, auth=replace(server.auth, subject_issuer=named or known[0]))


def _with_composio_user(servers: tuple[ServerConfig, ...]) -> tuple[ServerConfig, ...]:
    """Let the local toolkit upload as the user for whom Composio's tools are called."""
    found = [server.where for server in servers if isinstance(server.where, Composio)]
    users = {(where.user_id, where.default_user) for where in found}
    if len(users) != 1:
        return servers
    ((user, default),) = users
    known = {"composio_user": user, "composio_default_user": default}
    return tuple(
        replace(server, where=replace(server.where, options={**known, **server.where.options}))
        if isinstance(server.where, InProcess) and server.where.module == module_of("local_toolkit")
        else server
        for server in servers
    )


def _check_bare_view(settings: GatewayConfig, names: list[str], file: Path) -> None:
    if settings.server and settings.server not in names:
        hint = nearest_or_all(settings.server, names) if names else "there are no servers yet"
        raise ConfigError(
            f"{display_path(file)}: [gateway] names an unknown server {settings.server!r}", hint
        )
