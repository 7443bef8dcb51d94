"""Reads `auth` of a server's entry: a mode, or a table with one."""

from typing import Any

from .errors import ConfigValueError, nearest_or_all
from .server_auth import API_KEY, MODES, IdentityProvider, KeyAuth, OAuthAuth, ServerAuth
from .values import (
    Reader,
    flag,
    header_name,
    kind_of,
    names,
    nonempty,
    one_of,
    short_text,
    table,
    text,
    url,
    variable_name,
)


def _parameters(value: Any) -> dict[str, str]:
    found = {name: text(item) for name, item in table(value).items()}
    for name in found:
        if name in _OURS:
            raise ConfigValueError(f"has {name!r}, which cannot be replaced", "it protects the login")
    return found


_OURS = ("response_type", "client_id", "redirect_uri", "state", "code_challenge", "code_challenge_method")


def _provider(value: Any) -> IdentityProvider:
    members = table(value)
    readers: dict[str, Reader] = {"token_endpoint": url, "client_id": nonempty, "client_secret": nonempty}
    for key in members:
        if key not in readers:
            raise ConfigValueError(f"has an unknown key {key!r}", nearest_or_all(key, tuple(readers)))
    for key in ("token_endpoint", "client_id"):
        if key not in members:
            raise ConfigValueError(f"has no {key!r}", "it is needed")
    return IdentityProvider(**{key: readers[key](item) for key, item in members.items()})


_READERS: dict[str, Reader] = {
    "mode": one_of(*MODES, API_KEY),
    "client_id": nonempty,
    "client_secret": nonempty,
    "client_metadata_url": url,
    "private_key": nonempty,
    "key_id": nonempty,
    "algorithm": one_of("ES256", "ES384", "RS256", "PS256", "EdDSA"),
    "token_auth": one_of("auto", "none", "client_secret_basic", "client_secret_post", "private_key_jwt"),
    "issuer": url,
    "scopes": names,
    "resource": nonempty,
    "omit_resource": flag,
    "audience": nonempty,
    "parameters": _parameters,
    "prompt": nonempty,
    "dpop": flag,
    "subject_token": nonempty,
    "subject_token_type": nonempty,
    "assertion_file": nonempty,
    "identity_provider": _provider,
}


def server_auth(value: Any) -> ServerAuth:
    """A mode, or a table with it."""
    if isinstance(value, str):
        value = {"mode": value}
    if not isinstance(value, dict):
        raise ConfigValueError(f"must be text or a table, not {kind_of(value)}", 'such as auth = "oauth"')
    members = table(value)
    if members.get("mode") == API_KEY:
        return _key_auth({key: item for key, item in members.items() if key != "mode"})
    auth = OAuthAuth(**_read(members, _READERS))
    _check(auth)
    return auth


def _read(members: dict[str, Any], readers: dict[str, Reader]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in members.items():
        if key not in readers:
            raise ConfigValueError(f"has an unknown key {key!r}", nearest_or_all(key, tuple(readers)))
        try:
            found[key] = readers[key](item)
        except ConfigValueError as error:
            raise ConfigValueError(f"has an invalid {key!r}: it {error.message}", error.hint) from None
    return found


def _prefix(value: Any) -> str:
    found = text(value)
    if len(found) > MAX_PREFIX or not found.isascii() or not (found.isprintable()):
        raise ConfigValueError("cannot be in a header", f"up to {MAX_PREFIX} printable ASCII characters")
    return found


def _help(value: Any) -> str:
    found = url(value)
    if not found.startswith("https://"):
        raise ConfigValueError("is not an https address", "people follow it from the page for the key")
    return found


MAX_PREFIX = 100
_KEY_READERS: dict[str, Reader] = {
    "header": header_name,
    "prefix": _prefix,
    "variable": variable_name,
    "per": one_of("caller", "all"),
    "help": _help,
    "label": short_text(80),
}
_FIXED_HEADERS = ("host", "content-length", "content-type", "accept", "accept-encoding", "connection")


def _key_auth(members: dict[str, Any]) -> KeyAuth:
    auth = KeyAuth(**_read(members, _KEY_READERS))
    name = auth.header.lower()
    if name in _FIXED_HEADERS or name.startswith("mcp-"):
        raise ConfigValueError(f"has the header {auth.header!r}, which has another meaning", "name another")
    if auth.variable and (auth.header or auth.prefix is not None):
        raise ConfigValueError(
            "has both 'variable' and a header", "a program gets a variable, others a header"
        )
    return auth


def _check(auth: OAuthAuth) -> None:
    needs: tuple[str, ...] = ()
    if auth.mode in ("client_credentials", "id_jag"):
        needs = ("client_id",)
    elif auth.mode == "workload_identity":
        needs = ("assertion_file",)
    for key in needs:
        if not getattr(auth, key):
            raise ConfigValueError(f"is {auth.mode!r} without {key!r}", "it is needed")
    if auth.mode == "client_credentials" and not (auth.client_secret or auth.private_key):
        raise ConfigValueError("is 'client_credentials' without a secret", "add client_secret or private_key")
    if auth.mode == "id_jag" and auth.identity_provider is None:
        raise ConfigValueError("is 'id_jag' without 'identity_provider'", "say where ID tokens are exchanged")
    if auth.mode in ("token_exchange", "id_jag") and not auth.subject_token:
        raise ConfigValueError(f"is {auth.mode!r} without a token to exchange", "add subject_token")
    if auth.client_secret and not auth.client_id:
        raise ConfigValueError("has 'client_secret' without 'client_id'", "both come from one registration")
