"""The tables that are not servers: `[gateway]`, `[search]`, `[state]`, `[results]` and so on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import ConfigError
from .files import display_path
from .models import (
    GatewayConfig,
    ResultsConfig,
    SearchConfig,
    StateConfig,
    StoreConfig,
    TelemetryConfig,
    VaultConfig,
)
from .servers import absolute
from .values import (
    Reader,
    flag,
    host_names,
    integer,
    locale,
    master_key,
    master_keys,
    names,
    networks,
    nonempty,
    off_or_some_of,
    one_of,
    origins,
    port,
    read_table,
    seconds,
    seconds_or_zero,
    size,
    size_or_zero,
    some_of,
    state_url,
    store_url,
    text,
    url_or_empty,
    variables,
)

GATEWAY: dict[str, Reader] = {
    "view": one_of("auto", "search", "index", "all", "bare"),
    "server": text,
    "dialects": some_of("native", "suna", "composio", "rube"),
    "search_first": flag,
    "name": nonempty,
    "instructions": text,
    "locale": locale,
    "state_dir": text,
    "list_wait": seconds_or_zero,
    "page_size": integer(1),
    "park_ttl": seconds,
    "park_limit": integer(1),
    "keep_alive": seconds,
    "max_idle": integer(1),
    "host": nonempty,
    "port": port,
    "allowed_hosts": host_names,
    "allowed_origins": origins,
    "proxies": networks,
    "public_url": url_or_empty,
}
MACHINE_KEYS = ("host", "port", "allowed_hosts", "allowed_origins", "proxies", "public_url")
"""The keys of `[gateway]` that depend on the machine and may use variables."""
SEARCH: dict[str, Reader] = {
    "learn": flag,
    "limit": integer(1),
    "list_found": flag,
    "schema_tokens": integer(0),
    "remote_seconds": seconds,
    "batch_concurrency": integer(1),
    "batch_seconds": seconds,
}
STATE: dict[str, Reader] = {
    "url": state_url,
    "session_ttl": seconds,
    "key": text,
}
VAULT: dict[str, Reader] = {
    "key": master_key,
    "previous": master_keys,
}
RESULTS: dict[str, Reader] = {
    "shape": flag,
    "max_bytes": size,
    "max_items": integer(1),
    "max_lines": integer(1),
    "bounded": size_or_zero,
    "preview_items": integer(1),
    "preview_chars": integer(1),
    "compact": one_of("off", "auto", "csv", "table"),
    "exempt": names,
    "sql_seconds": seconds,
    "sql_memory": size,
}
STORE: dict[str, Reader] = {
    "url": store_url,
    "ttl": seconds,
    "quota": size,
    "links": one_of("signed", "public"),
    "public_url": url_or_empty,
    "timeout": seconds,
    "options": variables,
}
TELEMETRY: dict[str, Reader] = {
    "metrics": flag,
    "traces": off_or_some_of("local", "otlp", "logfire", "console"),
    "endpoint": url_or_empty,
    "content": one_of("off", "arguments", "all"),
    "trace_bytes": size,
    "trace_days": integer(1),
    "service_name": nonempty,
    "logs": one_of("text", "json"),
    "log_level": one_of("debug", "info", "warning", "error"),
    "access_log": flag,
}


def gateway(data: Mapping[str, Any], file: Path, env: Mapping[str, str]) -> GatewayConfig:
    values = read_table(data, "gateway", GATEWAY, file, env, MACHINE_KEYS)
    if values.get("state_dir"):
        values["state_dir"] = absolute(values["state_dir"], file.parent)
    found = GatewayConfig(**values)
    if found.view == "bare" and not found.server:
        raise ConfigError(
            f"{display_path(file)}: [gateway] has view = \"bare\" but no 'server'", 'add server = "NAME"'
        )
    return found


def search(data: Mapping[str, Any], file: Path) -> SearchConfig:
    return SearchConfig(**read_table(data, "search", SEARCH, file))


def state(data: Mapping[str, Any], file: Path, env: Mapping[str, str]) -> StateConfig:
    """Texts may use variables, because they may be secrets. The default of `key` is ENCRYPTION_KEY."""
    values = read_table(data, "state", STATE, file, env)
    locate(values, "sqlite", file.parent)
    values.setdefault("key", env.get("ENCRYPTION_KEY", ""))
    return StateConfig(**values)


def vault(data: Mapping[str, Any], file: Path, env: Mapping[str, str]) -> VaultConfig:
    values = read_table(data, "vault", VAULT, file, env)
    if values.get("key"):
        values["key"] = _located_key(values["key"], file.parent)
    values["previous"] = tuple(_located_key(one, file.parent) for one in values.get("previous", ()))
    return VaultConfig(**values)


def _located_key(source: str, folder: Path) -> str:
    """Paths of keys are relative to the folder of the configuration file."""
    kind, _, place = source.partition(":")
    return f"{kind}:{absolute(place, folder)}" if kind in ("file", "age") else source


def results(data: Mapping[str, Any], file: Path) -> ResultsConfig:
    return ResultsConfig(**read_table(data, "results", RESULTS, file))


def store(data: Mapping[str, Any], file: Path, env: Mapping[str, str]) -> StoreConfig:
    """Options may use variables, because they may be secrets."""
    values = read_table(data, "store", STORE, file, env)
    locate(values, "local", file.parent)
    return StoreConfig(**values)


def locate(values: dict[str, Any], scheme: str, folder: Path) -> None:
    """Make a path in an address relative to the folder of the configuration file."""
    address: str = values.get("url", "")
    path = address.removeprefix(f"{scheme}:").removeprefix("//")
    if address.startswith(f"{scheme}:") and path:
        values["url"] = f"{scheme}://{absolute(path, folder)}"


def telemetry(data: Mapping[str, Any], file: Path) -> TelemetryConfig:
    return TelemetryConfig(**read_table(data, "telemetry", TELEMETRY, file))
