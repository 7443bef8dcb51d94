"""Finds and loads the configuration of a command, and builds the gateway from it.

Imported by shell completion: everything heavy is imported in the functions.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..ui.messages import CommandError

if TYPE_CHECKING:
    from ...app import Gateway
    from ...config import Config


MAX_NESTING = 3


def config_file(target: str | None, given: Path | None) -> Path | None:
    """The file to use; None when the command is about a target, or there is nothing but the demo."""
    if target is not None:
        if given is not None:
            raise CommandError("a target and --config at once", "give one of them")
        return None
    if given is not None:
        return given
    from ...config import find

    return find()


def load_config(file: Path) -> "Config":
    from ...config import ConfigError, load

    try:
        return load(file)
    except ConfigError as error:
        raise config_failure(error) from None


def config_failure(error: Exception) -> CommandError:
    hint = getattr(error, "hint", None)
    return CommandError(str(error), *([hint] if hint else []))


def make_gateway(config: "Config", key: bytes | None, *, one_client: bool = False) -> "Gateway":
    from ...app import Gateway  # 150 ms of CPU with all that it mounts servers by
    from ...config import ConfigError
    from ...state.store import StateError
    from ...telemetry.tracing import TracesUnavailableError
    from ...upstream.stdio.launch import NESTING, nesting

    if nesting(os.environ) > MAX_NESTING:
        # An entry that starts this very gateway, as `import` may bring one along, would never end.
        raise CommandError(
            f"gateways start gateways, {MAX_NESTING} deep", f"see {NESTING} and who starts this one"
        )
    try:
        return Gateway(config, key, one_client=one_client)
    except (ConfigError, TracesUnavailableError, StateError) as error:
        raise CommandError(error.message, *([error.hint] if error.hint else [])) from None
