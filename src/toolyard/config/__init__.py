"""The configuration: frozen models, and how a file becomes them. It connects nothing and starts nothing.

`load` reads a file and what it includes; `find` says which file that is when nobody named one; `check` is
`load` for a file that is about to be written.
"""

from .errors import ConfigError
from .loader import check, find, load
from .models import (
    Broken,
    Composio,
    Config,
    GatewayConfig,
    Http,
    InProcess,
    ResultLimits,
    ResultsConfig,
    SearchConfig,
    ServerConfig,
    ServerResults,
    StateConfig,
    Stdio,
    StoreConfig,
    TelemetryConfig,
)

__all__ = [
    "Broken",
    "Composio",
    "Config",
    "ConfigError",
    "GatewayConfig",
    "Http",
    "InProcess",
    "ResultLimits",
    "ResultsConfig",
    "SearchConfig",
    "ServerConfig",
    "ServerResults",
    "StateConfig",
    "Stdio",
    "StoreConfig",
    "TelemetryConfig",
    "check",
    "find",
    "load",
]
