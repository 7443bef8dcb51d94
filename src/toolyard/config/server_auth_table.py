"""Reads `auth` of a server's entry: a mode, or a table with one."""

from typing import Any
from urllib.parse import urlsplit

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


_TOKEN_TYPES = ("access_token", "id_token", "jwt", "refresh_token", "saml2")
_TOKEN_TYPE_URN = "urn:ietf:params:oauth:token-type:"


def _token_type(value: Any) -> str:
    """A URI, or the last word of one that RFC 8693 has."""
    found = nonempty(value)
    if found in _TOKEN_TYPES:
        return f"{_TOKEN_TYPE_URN}{found}"
    if ":" not in found:
        raise ConfigValueError(
            f"is {found[:40]!r}, which is no type of tokens", f"{', '.join(_TOKEN_TYPES)}, or a URI"
        )
    return found


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
    "subject": one_of("caller"),
    "subject_issuer": url,
    "subject_token_type": _token_type,
    "lists": one_of("client_credentials"),
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
    for key in members:
        if key in _KEY_READERS and "mode" not in members:
            raise ConfigValueError(f"has {key!r}, which is for API keys", f'add mode = "{API_KEY}"')
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
    _check_subject(auth)
    if auth.client_secret and not auth.client_id:
        raise ConfigValueError("has 'client_secret' without 'client_id'", "both come from one registration")


def _check_subject(auth: OAuthAuth) -> None:
    exchanges = auth.mode in ("token_exchange", "id_jag")
    for key in ("subject", "subject_token", "subject_token_type"):
        if getattr(auth, key) and not exchanges:
            raise ConfigValueError(
                f"has {key!r}, which {auth.mode!r} does not exchange", "mode is token_exchange or id_jag"
            )
    if exchanges and not (auth.subject or auth.subject_token):
        raise ConfigValueError(
            f"is {auth.mode!r} without a token to exchange",
            'add subject = "caller" for the token that each caller comes with, or subject_token',
        )
    if auth.subject and auth.subject_token:
        raise ConfigValueError(
            "has 'subject' and 'subject_token'", "the token is the caller's, or it is one for all: keep one"
        )
    if not auth.acts_for_caller:
        for key in ("subject_issuer", "lists"):
            if getattr(auth, key):
                raise ConfigValueError(f'has {key!r} without subject = "caller"', "it belongs to that")
        return
    if not auth.issuer:
        # A server's metadata must not decide who gets to see callers' tokens.
        raise ConfigValueError(
            "has subject = \"caller\" without 'issuer'", "name the only one that tokens are asked of"
        )
    provider = auth.identity_provider
    for name, place in (("issuer", auth.issuer), ("identity_provider", provider and provider.token_endpoint)):
        if place and not _is_secure(place):
            raise ConfigValueError(
                f"has an {name!r} that is not https, and callers' tokens would go there",
                "use https; only an address of this machine may do without",
            )
    if auth.lists and not (auth.client_id and (auth.client_secret or auth.private_key)):
        raise ConfigValueError(
            'has lists = "client_credentials" without a secret',
            "add client_id with client_secret or private_key",
        )


def _is_secure(url: str) -> bool:
    """Whether nobody on the way can read what is sent there."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    loopback = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return parts.scheme == "https" or (parts.scheme == "http" and loopback)
