"""The one list of what is secret in a configuration: complete, and used by whatever hides secrets."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import Struct

from toolyard.config import Composio, Config, Http, InProcess, ServerConfig, Stdio
from toolyard.config.callers import (
    AuditConfig,
    AuthConfig,
    IssuerConfig,
    LoginClientConfig,
    LoginServerConfig,
)
from toolyard.config.models import StateConfig, StoreConfig
from toolyard.config.references import SecretText
from toolyard.config.secrets import is_secret_name, possible_secrets, secret_values
from toolyard.config.server_auth import IdentityProvider, OAuthAuth

NO_SECRETS = {
    "VaultConfig.key": "a place: env:NAME, file:PATH",
    "IdentityProvider.token_endpoint": "an address",
    "ServerConfig.caller_keys": "names of headers",
    "AccessConfig.groups": "names of callers",
    "IssuerConfig.claims": "names of claims",
    "LoginServerConfig.claims": "names of claims",
    "ServerConfig.rename": "names of tools",
}
"""Named like secrets, or with names of the users' own. Whoever adds one says here what it is, or marks it."""


def models(kind: Any = Config) -> Iterator[type[Struct]]:
    """Every model that a configuration can hold."""
    seen: set[type[Struct]] = set()
    waiting = [kind]
    while waiting:
        one = waiting.pop()
        if isinstance(one, type) and issubclass(one, Struct) and one not in seen:
            seen.add(one)
            yield one
            waiting += get_type_hints(one).values()
        elif get_origin(one) is not None:
            waiting += get_args(one)


def fields() -> Iterator[tuple[type[Struct], str, Any]]:
    for model in models():
        for name, hint in get_type_hints(model, include_extras=True).items():
            yield model, name, hint


def holds_text(hint: Any) -> bool:
    hint = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    if hint is str or hint is Any:
        return True
    return any(holds_text(part) for part in get_args(hint) if not isinstance(part, str))


def test_whatever_may_be_a_secret_is_marked_as_one_or_known_as_none():
    suspect = {
        f"{model.__name__}.{name}"
        for model, name, hint in fields()
        if not hasattr(hint, "__metadata__")
        and (get_origin(hint) in (dict, Mapping) or is_secret_name(name))
        and holds_text(get_args(hint)[-1] if get_origin(hint) in (dict, Mapping) else hint)
    }
    assert suspect == NO_SECRETS.keys()


def filled(hint: Any, name: str) -> Any:
    """A value for a marked field, with a secret in it that no other has."""
    kind = hint.__metadata__[0]
    secret = f"{name}-secret-0123456789"
    if kind == "secret":
        return secret
    return ("--token", secret) if kind == "arguments" else {"token": secret}


def test_each_of_them_is_found_wherever_it_stands():
    marked = [(model, name, hint) for model, name, hint in fields() if hasattr(hint, "__metadata__")]
    assert len(marked) > 15
    for model, name, hint in marked:
        made = _made(model, {name: filled(hint, f"{model.__name__}.{name}")})
        wanted = f"{model.__name__}.{name}-secret-0123456789"
        assert wanted in set(secret_values([made])), f"{model.__name__}.{name}"


def _made(model: type[Struct], given: dict[str, Any]) -> Struct:
    needed = {
        field.name: "x"
        for field in msgspec.structs.fields(model)
        if field.required and field.name not in given
    }
    return model(**needed, **given)


def test_a_whole_configuration_is_searched():
    provider = IdentityProvider(token_endpoint="x", client_id="y", client_secret="of-the-provider")
    auth = OAuthAuth(client_secret="of-the-client", identity_provider=provider)
    places = (
        Http(url="https://u:of-the-url@h/mcp?api_key=of-the-query", headers={"X-Key": "of-a-header"}),
        Stdio(command="x", env={"A_TOKEN": "of-the-environment"}, args=("--key=of-the-arguments",)),
        Composio(api_key="of-composio"),
        InProcess(module="m", options={"db": {"password": "of-the-options"}}),
    )
    client = LoginClientConfig(id="x", redirect_uris=(), secret="of-the-login")
    issuer = IssuerConfig(issuer="https://i", client_secret="of-the-issuer")
    door = LoginServerConfig(client_secret="of-the-door", clients=(client,))
    config = Config(
        servers=tuple(ServerConfig(name="a", where=place, auth=auth) for place in places),
        state=StateConfig(url="redis://:of-redis@h", key="of-the-state"),
        store=StoreConfig(options={"secret_access_key": "of-the-store"}),
        audit=AuditConfig(webhook_headers={"Authorization": "Bearer of-the-webhook"}),
        auth=AuthConfig(issuers=(issuer,), server=door),
    )
    found = set(secret_values(config))
    things = "provider client url query environment arguments options login issuer door state store webhook"
    assert found == {"of-a-header", "of-composio", "of-redis"} | {f"of-the-{one}" for one in things.split()}
    assert found <= set(possible_secrets(config))


@pytest.mark.parametrize(
    ("headers", "secrets"),
    [
        ({"X-Api-Key": "abc", "apikey": "def", "APIKey": "ghi"}, {"abc", "def", "ghi"}),
        ({"Authorization": "Token abc"}, {"abc"}),
        ({"Authorization": "Basic bWU6aHVudGVyMg=="}, {"bWU6aHVudGVyMg==", "hunter2"}),
        ({"Cookie": "session=abc; theme=dark"}, {"session=abc; theme=dark", "abc", "dark"}),
        ({"X-Custom": "HEADER-VALUE-123"}, {"HEADER-VALUE-123"}),
        ({"X-Tenant": "acme-platform-2024", "X-Region": "eu-central-1a", "X-Readonly": "true"}, set()),
        ({"Accept": "application/json", "X-Version": "2022-11-28-beta", "X-Count": "1"}, set()),
        ({"X-Callback": "https://example.com/hooks/2024", "X-Key-Id": "k1"}, set()),
        ({"X-Tenant": SecretText("acme of somebody", ("somebody",))}, {"somebody"}),
    ],
)
def test_a_header_is_secret_by_its_name_or_else_by_its_form(headers: dict[str, str], secrets: set[str]):
    assert set(secret_values(Http(url="https://h/mcp", headers=headers))) == secrets


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("https://h/mcp?token=abc&page=2", {"abc"}),
        ("https://h/s/abcDEF0123456789abcDEF0123/mcp", {"abcDEF0123456789abcDEF0123"}),
        ("https://ghp_0123456789abcdef0123456789@h/mcp", {"ghp_0123456789abcdef0123456789"}),
        ("https://h/550e8400-e29b-41d4-a716-446655440000/mcp?tenant=acme", set()),
        ("https://me@h/organizations/acme-platform-europe-2024/mcp", set()),
    ],
)
def test_what_an_address_carries(url: str, secrets: set[str]):
    assert set(secret_values(Http(url=url))) == secrets


@pytest.mark.parametrize(
    ("where", "secrets"),
    [
        ({"env": {"MODEL": "claude-3-5-sonnet-20241022", "PYTHON": "python311", "HOME": "/home/x"}}, set()),
        (
            {"env": {"ACCESS": "AKIAIOSFODNN7EXAMPLE", "MAX_TOKENS": "100000", "TOKEN_FILE": "/run/x"}},
            {"AKIAIOSFODNN7EXAMPLE"},
        ),
        (
            {"args": ("--key", "abc", "--verbose", "--password=def", "-e", "GH_TOKEN=ghi")},
            {"abc", "def", "ghi"},
        ),
        ({"args": ("mcp-remote", "https://h/mcp", "--header", "Authorization: Bearer abc")}, {"abc"}),
        ({"args": ("--token", "--key-file", "k.pem", "--page=2")}, set()),
    ],
)
def test_what_a_program_is_given(where: dict[str, Any], secrets: set[str]):
    assert set(secret_values(Stdio(command="x", **where))) == secrets


KEY_LINES = ("MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF", "AAa1bcdef0123456==")
PEM = "\n".join(("-----BEGIN PRIVATE KEY-----", *KEY_LINES, "-----END PRIVATE KEY-----", ""))
ACCOUNT = {
    "type": "service_account",
    "private_key": PEM,
    "private_key_id": "abc123",
    "token_uri": "https://h/t",
}


@pytest.mark.parametrize(
    ("value", "secrets"),
    [
        (PEM, {PEM, *KEY_LINES}),
        (PEM.replace("\n", "\r\n"), {PEM.replace("\n", "\r\n"), *KEY_LINES}),
        (json.dumps(ACCOUNT), {json.dumps(ACCOUNT), PEM, *KEY_LINES}),
        ('{"db": {"password": "abc"}, "a": ["b"]}', {'{"db": {"password": "abc"}, "a": ["b"]}', "abc"}),
        ("{not JSON}", {"{not JSON}"}),
        ("two\nlines of words", {"two\nlines of words"}),
    ],
)
@pytest.mark.parametrize("kind", [str, SecretText])
def test_a_part_of_a_secret_is_a_secret(value: str, secrets: set[str], kind: type[str]):
    found = set(secret_values(Stdio(command="x", env={"MY_KEY": kind(value)})))
    assert secrets <= found
    assert not found & {"-----BEGIN PRIVATE KEY-----", "service_account", "abc123", "b", "lines of words"}
