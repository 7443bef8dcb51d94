"""The configuration that a command is about, and the gateway made of it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .failure import Failure

if TYPE_CHECKING:
    from ..app import Gateway
    from ..config import Config


MAX_NESTING = 3


def config_file(target: str | None, given: Path | None) -> Path | None:
    """The file to use; None when the command is about a target, or there is nothing but the demo."""
    if target is not None:
        if given is not None:
            raise Failure("a target and --config at once", "give one of them")
        return None
    if given is not None:
        return given
    from ..config import find

    return find()


def read(file: Path) -> "Config":
    from ..config import ConfigError, load

    try:
        return load(file)
    except ConfigError as error:
        raise failed(error) from None


def failed(error: Exception) -> Failure:
    hint = getattr(error, "hint", None)
    return Failure(str(error), *([hint] if hint else []))


def make(config: "Config", key: bytes | None) -> "Gateway":
    from ..app import Gateway  # 150 ms of CPU with all that it mounts servers by
    from ..config import ConfigError
    from ..state.errors import StateError
    from ..telemetry.tracing import TracesUnavailable
    from ..upstream.launch import NESTING, nesting

    if nesting(os.environ) > MAX_NESTING:
        # An entry that starts this very gateway, as `import` may bring one along, would never end.
        raise Failure(
            f"gateways start gateways, {MAX_NESTING} deep", f"see {NESTING} and who starts this one"
        )
    try:
        return Gateway(config, key)
    except (ConfigError, TracesUnavailable, StateError) as error:
        raise Failure(error.message, *([error.hint] if error.hint else [])) from None
