"""How a remote store keeps results, beyond what every store is told: our own among the `[store.options]`."""

from typing import cast

from msgspec import Struct

from ...config import ConfigError
from .packing import Encoding


class Manner(Struct, frozen=True):
    prefix: str = ""
    """Of all keys; empty, or ends with a slash."""
    encoding: Encoding = "identity"
    sweeps: bool = True
    """False where the bucket's own rules remove what is old."""
    through_gateway: bool = False
    """Links lead to the gateway, for buckets that only it can reach."""


def manner_of(options: dict[str, str], path: str) -> Manner:
    """Takes its options out; what is left is for the bucket."""
    prefix = path.strip("/")
    return Manner(
        prefix=f"{prefix}/" if prefix else "",
        encoding=cast(Encoding, _one_of(options, "compress", "identity", "gzip")),
        sweeps=_one_of(options, "sweep", "on", "off") == "on",
        through_gateway=_one_of(options, "links", "bucket", "gateway") == "gateway",
    )


def _one_of(options: dict[str, str], name: str, *choices: str) -> str:
    """The first choice is what it is when nothing is said."""
    value = options.pop(name, choices[0])
    if value not in choices:
        known = " or ".join(f'"{choice}"' for choice in choices)
        raise ConfigError(f"[store.options] {name} = {value!r} is unknown", f"{name} = {known}")
    return value
