"""Finds and loads the configuration of a command, and builds the gateway from it.

Imported by shell completion: everything heavy is imported in the functions.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import traffic
from ..ui.messages import CommandError

if TYPE_CHECKING:
    from ...app import Gateway
    from ...config import Config, ConfigError
    from ...state.store import StateError
    from ...telemetry.tracing import TracesUnavailableError
    from ...vault.base import VaultError


MAX_NESTING = 3


def config_file(
    target: str | None, given: Path | None, options: Mapping[str, Any] | None = None
) -> Path | None:
    """The file to use; None for a target, or if no file is found. `options` are the target's settings."""
    if target is not None and given is not None:
        raise CommandError("a target and --config at once", "give one of them")
    if (tapped := traffic.current()) is not None:
        return tapped.config_file(target, options or {}, given)
    if target is not None:
        return None
    if given is not None:
        return given
    from ...config import find

    return find()


def load_config(file: Path) -> "Config":
    from ...config import ConfigError
    from ...vault.references import load_resolved

    try:
        config = load_resolved(file)
    except ConfigError as error:
        raise config_error(error) from None
    tapped = traffic.current()
    return config if tapped is None else tapped.config(file, config)


def config_error(error: "ConfigError | StateError | TracesUnavailableError | VaultError") -> CommandError:
    return CommandError(error.message, *([error.hint] if error.hint else []))


def make_gateway(
    config: "Config", key: bytes | Callable[[], bytes | None] | None, *, one_client: bool = False
) -> "Gateway":
    """A function gives the key when something is signed."""
    from ...app import Gateway  # 150 ms of CPU
    from ...config import ConfigError
    from ...state.store import StateError
    from ...telemetry.tracing import TracesUnavailableError
    from ...upstream.stdio.launch import NESTING, nesting
    from ..serving.session_key import check_key_variable, session_key
    from ..serving.vault import require_vault

    if nesting(os.environ) > MAX_NESTING:
        # An entry that starts this gateway itself, which `import` may have copied, would never end.
        raise CommandError(
            f"gateways are nested more than {MAX_NESTING} deep",
            f"remove the entry that starts this gateway; {NESTING} counts them",
        )
    check_key_variable()
    require_vault(config)
    if config.audit.is_on and not isinstance(key, bytes):
        # A chain of records without a key would look as if anybody had made it.
        key = session_key(None)
    tapped = traffic.current()
    try:
        return Gateway(config, key, one_client=one_client, tap=None if tapped is None else tapped.tap)
    except (ConfigError, TracesUnavailableError, StateError) as error:
        raise config_error(error) from None


def places(given: Path | None) -> "Config":
    """Where the data of the configuration are; without a configuration, this user's own folder.

    Looks up no secret, so that a missing one can be set.
    """
    from ...config import Config, ConfigError
    from ...config.loader import load_places

    file = config_file(None, given)
    if file is None:
        return Config()
    try:
        return load_places(file)
    except ConfigError as error:
        raise config_error(error) from None
