"""The settings that the function's servers are given: as variables, which is where they look for them."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ..failure import Failure
from ..secrecy import secrets_in
from .chosen import Chosen

Options = dict[str, dict[str, Any]]
"""By the name of the server."""


class Variables(Struct, frozen=True):
    plain: dict[str, str]
    secret: dict[str, str]


def read(options: Iterable[str], chosen: list[Chosen]) -> Options:
    """`NAME=VALUE`, or `SERVER.NAME=VALUE` where there are several."""
    found: Options = {server.name: {} for server in chosen}
    for given in options:
        name, equals, value = given.partition("=")
        server, dot, setting = name.rpartition(".")
        if not equals or not setting:
            raise Failure(f"--option {given!r} is not NAME=VALUE", "such as --option locale=pt")
        if not dot and len(chosen) > 1:
            raise Failure(f"--option {given!r} does not say whose it is", f"as in {chosen[0].name}.{given}")
        server = server or chosen[0].name
        if server not in found:
            raise Failure(f"--option {given!r}: there is no server {server!r}", f"of {', '.join(found)}")
        found[server][setting.replace("-", "_")] = value
    return found


def variables(prefixes: Mapping[str, str], options: Options) -> Variables:
    """As the servers will find them. What looks like a secret is for the template by name only."""
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for server, settings in options.items():
        for name, value in settings.items():
            if not (prefix := prefixes.get(server, "")):
                raise Failure(f"{server!r} reads no settings from variables", "set what it needs in its code")
            variable = prefix + name.upper()
            if {**plain, **secret}.get(variable, value) != value:
                raise Failure(f"two servers would share the variable {variable!r}, with different values")
            if any(secrets_in({"env": {variable: value or "x"}})):
                secret[variable] = str(value)
            else:
                plain[variable] = str(value)
    return Variables(plain, secret)
