"""The tables `[gateway]` and `[telemetry]`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .entry import absolute
from .errors import ConfigError, Wrong, nearest_or_all
from .models import GatewayConfig, TelemetryConfig
from .reading import shown
from .values import (
    Reader,
    filled,
    flag,
    one_of,
    seconds,
    seconds_or_none,
    table,
    text,
    url_or_nothing,
    whole,
)


def _view(value: Any) -> str:
    if value == "search":
        raise Wrong('cannot be "search" yet: that view comes with a later version', 'use "all" until then')
    return one_of("all", "bare")(value)


GATEWAY: dict[str, Reader] = {
    "view": _view,
    "server": text,
    "name": filled,
    "instructions": text,
    "state_dir": text,
    "list_wait": seconds_or_none,
    "page_size": whole(1),
    "park_ttl": seconds,
    "park_limit": whole(1),
}
TELEMETRY: dict[str, Reader] = {
    "metrics": flag,
    "traces": one_of("off", "otlp", "console"),
    "endpoint": url_or_nothing,
    "service_name": filled,
    "logs": one_of("text", "json"),
    "log_level": one_of("debug", "info", "warning", "error"),
}


def gateway(data: Mapping[str, Any], file: Path) -> GatewayConfig:
    values = _read(data, "gateway", GATEWAY, file)
    if values.get("state_dir"):
        values["state_dir"] = absolute(values["state_dir"], file.parent)
    found = GatewayConfig(**values)
    if found.view == "bare" and not found.server:
        raise ConfigError(
            f"{shown(file)}: [gateway] has view = \"bare\" and no 'server'", 'add server = "NAME"'
        )
    return found


def telemetry(data: Mapping[str, Any], file: Path) -> TelemetryConfig:
    return TelemetryConfig(**_read(data, "telemetry", TELEMETRY, file))


def _read(data: Mapping[str, Any], name: str, readers: Mapping[str, Reader], file: Path) -> dict[str, Any]:
    try:
        fields = table(data.get(name, {}))
    except Wrong as error:
        raise ConfigError(f"{shown(file)}: {name!r} {error.message}") from None
    values: dict[str, Any] = {}
    for key, value in fields.items():
        if key not in readers:
            hint = nearest_or_all(key, readers)
            raise ConfigError(f"{shown(file)}: [{name}] has an unknown key {key!r}", hint)
        try:
            values[key] = readers[key](value)
        except Wrong as error:
            raise ConfigError(f"{shown(file)}: {key!r} of [{name}] {error.message}", error.hint) from None
    return values
