"""The configuration: frozen models, and the code that reads them from files. Opens no connections.

`load` reads a file and its includes; `find` finds the default file; `check` is `load` for a text that is
about to be written to the file.
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
    VaultConfig,
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
    "VaultConfig",
    "check",
    "find",
    "load",
]
