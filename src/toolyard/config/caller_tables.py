"""Reads the tables about callers: `[auth]`, `[access]`, `[limits]` and `[audit]`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .callers import (
    AccessConfig,
    AccessRule,
    AuditConfig,
    AuthConfig,
    IssuerConfig,
    LimitRule,
    LimitsConfig,
    LoginClientConfig,
    LoginServerConfig,
    PriceRule,
    ProxyConfig,
)
from .errors import ConfigError
from .files import display_path
from .tables import locate
from .values import (
    Reader,
    amount,
    flag,
    header_name,
    headers,
    integer,
    names,
    networks,
    nonempty,
    one_of,
    read_rows,
    read_table,
    seconds,
    seconds_or_zero,
    size,
    some_of,
    table,
    text,
    texts,
    url,
    url_or_empty,
    variables,
)

CLAIMS = ("tenant", "subject", "agent", "client", "groups")
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_AUTH: dict[str, Reader] = {
    "required": flag,
    "keys": flag,
    "grants": flag,
    "grant_ttl": seconds,
    "scopes": names,
    "issuers": lambda value: value,
    "proxy": table,
    "server": table,
}
_ISSUER: dict[str, Reader] = {
    "issuer": url,
    "audiences": names,
    "algorithms": some_of(*ALGORITHMS),
    "jwks_url": url_or_empty,
    "introspection_url": url_or_empty,
    "client_id": text,
    "client_secret": text,
    "claims": variables,
    "tenant": text,
    "leeway": seconds_or_zero,
    "plain_http": flag,
}
_PROXY: dict[str, Reader] = {
    "addresses": networks,
    "user": header_name,
    "groups": header_name,
    "tenant": header_name,
    "agent": header_name,
}


_LOGIN_SERVER: dict[str, Reader] = {
    "issuer": url_or_empty,
    "client_id": text,
    "client_secret": text,
    "issuer_scopes": names,
    "claims": variables,
    "tenant": text,
    "groups": names,
    "scopes": names,
    "clients": lambda value: value,
    "access_ttl": seconds,
    "refresh_ttl": seconds,
    "session_ttl": seconds,
    "client_hosts": names,
    "plain_http": flag,
}
_LOGIN_CLIENT: dict[str, Reader] = {
    "id": nonempty,
    "name": text,
    "redirect_uris": names,
    "secret": text,
}
LOGIN_SERVER, LOGIN_CLIENT = tuple(_LOGIN_SERVER), tuple(_LOGIN_CLIENT)
LOGIN_CLAIMS = ("tenant", "subject", "groups")


def auth(data: Mapping[str, Any], file: Path, env: Mapping[str, str]) -> AuthConfig:
    """Its texts may be secrets, so they may name variables."""
    values = read_table(data, "auth", _AUTH, file)
    rows = read_rows(values.pop("issuers", []), "auth.issuers", _ISSUER, file, env)
    for number, row in enumerate(rows, 1):
        _check_issuer(row, f"{display_path(file)}: [auth.issuers {number}]")
    proxy = values.pop("proxy", None)
    if proxy is not None:
        known = read_table({"auth.proxy": proxy}, "auth.proxy", _PROXY, file, env)
        if not known.get("addresses"):
            raise ConfigError(
                f"{display_path(file)}: [auth.proxy] has no 'addresses'",
                "name the addresses of the proxy: anybody else could send its headers",
            )
        values["proxy"] = ProxyConfig(**known)
    server = values.pop("server", None)
    if server is not None:
        values["server"] = _login_server(server, file, env)
    config = AuthConfig(issuers=tuple(IssuerConfig(**row) for row in rows), **values)
    if config.required and not config.knows_callers:
        raise ConfigError(
            f"{display_path(file)}: [auth] is required, and there is no way to show who one is",
            "add keys = true, [[auth.issuers]], [auth.server] or [auth.proxy]",
        )
    return config


def _check_issuer(row: dict[str, Any], where: str) -> None:
    if "issuer" not in row:
        raise ConfigError(f"{where} has no 'issuer'", "give the address that its tokens name in 'iss'")
    for claim in row.get("claims", {}):
        if claim not in CLAIMS:
            raise ConfigError(f"{where} maps an unknown part {claim!r}", f"use {', '.join(CLAIMS)}")
    if row.get("introspection_url") and not row.get("client_id"):
        raise ConfigError(
            f"{where} has 'introspection_url' and no 'client_id'", "add client_id and client_secret"
        )


def _login_server(given: Any, file: Path, env: Mapping[str, str]) -> LoginServerConfig:
    values = read_table({"auth.server": given}, "auth.server", _LOGIN_SERVER, file, env)
    where = f"{display_path(file)}: [auth.server]"
    rows = read_rows(values.pop("clients", []), "auth.server.clients", _LOGIN_CLIENT, file, env)
    for number, row in enumerate(rows, 1):
        for name in ("id", "redirect_uris"):
            if not row.get(name):
                raise ConfigError(
                    f"{display_path(file)}: [auth.server.clients {number}] has no {name!r}",
                    "a client that registers itself need not be in the file",
                )
    for claim in values.get("claims", {}):
        if claim not in LOGIN_CLAIMS:
            raise ConfigError(f"{where} maps an unknown part {claim!r}", f"use {', '.join(LOGIN_CLAIMS)}")
    if values.get("issuer") and not values.get("client_id"):
        raise ConfigError(
            f"{where} has 'issuer' and no 'client_id'",
            "register this gateway at the issuer, with the redirect URL PUBLIC_URL/oauth/idp",
        )
    for name in ("client_id", "client_secret", "claims", "tenant", "groups"):
        if values.get(name) and not values.get("issuer"):
            raise ConfigError(f"{where} has {name!r} and no 'issuer'", "it is about users of an issuer")
    return LoginServerConfig(clients=tuple(LoginClientConfig(**row) for row in rows), **values)


_ACCESS: dict[str, Reader] = {
    "default": one_of("allow", "deny"),
    "agents": names,
    "groups": table,
    "rules": lambda value: value,
    "confirm_seconds": seconds,
}
_ACCESS_RULE: dict[str, Reader] = {
    "name": text,
    "who": names,
    "allow": names,
    "deny": names,
    "confirm": names,
    "preview": names,
    "when": text,
    "scopes": names,
}


ACCESS, ACCESS_RULE = tuple(_ACCESS), tuple(_ACCESS_RULE)


def access(data: Mapping[str, Any], file: Path) -> AccessConfig:
    """The rules as they stand in the file; `policy` reads their patterns and conditions."""
    values = read_table(data, "access", _ACCESS, file)
    rows = read_rows(values.pop("rules", []), "access.rules", _ACCESS_RULE, file)
    for number, row in enumerate(rows, 1):
        if not any(row.get(verb) for verb in ("allow", "deny", "confirm", "preview")):
            where = f"{display_path(file)}: [access.rules {number}]"
            raise ConfigError(f"{where} says nothing", "add allow, deny, confirm or preview")
    if rows:
        values.setdefault("default", "deny")
    members: dict[str, Any] = values.pop("groups", {})
    groups = read_table({"access.groups": members}, "access.groups", dict.fromkeys(members, texts), file)
    return AccessConfig(groups=groups, rules=tuple(AccessRule(**row) for row in rows), **values)


_LIMITS: dict[str, Reader] = {
    "rules": lambda value: value,
    "prices": lambda value: value,
    "currency": nonempty,
    "unavailable": one_of("open", "closed"),
}
_AMOUNTS: dict[str, Reader] = {
    "rate": amount,
    "concurrent": integer(1),
    "calls": integer(1),
    "calls_a_day": integer(1),
    "calls_a_month": integer(1),
    "bytes_a_day": size,
    "bytes_a_month": size,
    "tokens_a_day": integer(1),
    "tokens_a_month": integer(1),
    "cost_a_day": amount,
    "cost_a_month": amount,
}
_LIMIT_RULE: dict[str, Reader] = {
    "name": text,
    "who": names,
    "tools": names,
    "per": one_of("user", "agent", "tenant", "server", "tool", "all"),
    "burst": integer(1),
    "window": seconds,
    **_AMOUNTS,
}
_PRICE: dict[str, Reader] = {"tools": names, "call": amount, "million_tokens": amount}
LIMITS, LIMIT_RULE, PRICE = tuple(_LIMITS), tuple(_LIMIT_RULE), tuple(_PRICE)


def limits(data: Mapping[str, Any], file: Path) -> LimitsConfig:
    values = read_table(data, "limits", _LIMITS, file)
    rows = read_rows(values.pop("rules", []), "limits.rules", _LIMIT_RULE, file)
    for number, row in enumerate(rows, 1):
        where = f"{display_path(file)}: [limits.rules {number}]"
        if not any(row.get(name) for name in _AMOUNTS):
            raise ConfigError(f"{where} limits nothing", f"add one of {', '.join(_AMOUNTS)}")
        if bool(row.get("calls")) != bool(row.get("window")):
            raise ConfigError(
                f"{where} needs 'calls' and 'window' together", "as in calls = 100, window = 60"
            )
        if row.get("burst") and not row.get("rate"):
            raise ConfigError(f"{where} has 'burst' and no 'rate'", "add rate, the calls a second")
    prices = read_rows(values.pop("prices", []), "limits.prices", _PRICE, file)
    for number, row in enumerate(prices, 1):
        if not row.get("tools"):
            raise ConfigError(
                f"{display_path(file)}: [limits.prices {number}] has no 'tools'", 'as in tools = ["*"]'
            )
    return LimitsConfig(
        rules=tuple(LimitRule(**row) for row in rows),
        prices=tuple(PriceRule(**row) for row in prices),
        **values,
    )


AUDIT: dict[str, Reader] = {
    "url": text,
    "arguments": one_of("none", "digest", "redacted"),
    "unavailable": one_of("open", "closed"),
    "max_bytes": size,
    "keep": seconds,
    "webhook": url_or_empty,
    "webhook_headers": headers,
    "syslog": text,
}
_HOST_AND_PORT = re.compile(r"[^\s/]+:\d{1,5}")
SCHEMES = ("file", "sqlite", "postgres", "postgresql")


def audit(data: Mapping[str, Any], file: Path, env: Mapping[str, str]) -> AuditConfig:
    """Its texts may be secrets, so they may name variables."""
    values = read_table(data, "audit", AUDIT, file, env)
    scheme, colon, _ = values.get("url", "").partition(":")
    if values.get("url") and (scheme not in SCHEMES or not colon):
        raise ConfigError(
            f"{display_path(file)}: 'url' of [audit] begins with {scheme[:20]!r}",
            "use file:FOLDER, sqlite:FILE or postgresql://HOST/NAME",
        )
    if not values.get("url") and (values.get("webhook") or values.get("syslog")):
        raise ConfigError(
            f"{display_path(file)}: [audit] has a webhook or syslog and no 'url'",
            'records are kept first and sent on from there; add url = "file:"',
        )
    target: str = values.get("syslog", "")
    if target and not target.startswith("/") and not _HOST_AND_PORT.fullmatch(target):
        raise ConfigError(
            f"{display_path(file)}: 'syslog' of [audit] is neither HOST:PORT nor the path of a socket",
            'as in "127.0.0.1:514" or "/dev/log"',
        )
    locate(values, "file", file.parent)
    locate(values, "sqlite", file.parent)
    return AuditConfig(**values)
