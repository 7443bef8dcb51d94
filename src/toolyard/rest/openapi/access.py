"""`base_url` and `[auth]` of a definition, from the document."""

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from ..definition.rules import HEADER_NAME, OUR_HEADERS
from ..http.client import ApiOrigin, BaseUrlError
from .document import Node, OpenApiDocument, OpenApiError, node, nodes, text

_KEY_HEADERS = re.compile(r"(x-)?(api|auth|access|app|secret|private|session)[-_]?(key|token)", re.I)
"""Usual names of headers with keys, for documents without a security scheme."""
_KEY_QUERIES = re.compile(r"(api|auth|access)[-_]?(key|token)", re.I)
_CREDENTIALS = ("authorization", "proxy-authorization", "cookie")


class CredentialLocations(Struct, frozen=True):
    """Where requests carry keys; these are not arguments of tools."""

    places: frozenset[tuple[str, str]]
    """From the security schemes; headers in lower case."""
    sent: tuple[str, str]
    """The location that [auth] uses."""

    def are_in(self, place: str, name: str) -> bool:
        if _looks_like_key(place, name):
            return True
        return (place, _wire(place, name)) in self.places

    def sent_in(self, place: str, name: str) -> bool:
        return (place, _wire(place, name)) == self.sent


def _looks_like_key(place: str, name: str) -> bool:
    if place == "header":
        return name.lower() in _CREDENTIALS or bool(_KEY_HEADERS.fullmatch(name))
    return place == "query" and bool(_KEY_QUERIES.fullmatch(name))


def _wire(place: str, name: str) -> str:
    return name.lower() if place == "header" else name


def credential_locations(document: OpenApiDocument, auth: Node) -> CredentialLocations:
    schemes = node(node(document.raw.get("components")).get("securitySchemes"))
    found = [document.resolved(scheme) for scheme in schemes.values()]
    places = [
        (text(scheme.get("in")), text(scheme.get("name")))
        for scheme in found
        if scheme.get("type") == "apiKey"
    ]
    kind = text(auth.get("kind"))
    sent = ("header", "authorization") if kind == "bearer" else (kind, _wire(kind, text(auth.get("name"))))
    return CredentialLocations(frozenset((place, _wire(place, name)) for place, name in places), sent)


def auth(document: OpenApiDocument, name: str) -> tuple[Node, list[str]]:
    """`[auth]`, empty if no key is needed, and notes about it."""
    found, notes = _by_schemes(document)
    if not found:
        found, more = _by_headers(document)
        notes += more
    if not found:
        return {}, notes
    variable = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
    return {**found, "variable": f"{variable}_API_KEY".lstrip("0123456789_")}, notes


def _by_headers(document: OpenApiDocument) -> tuple[Node, list[str]]:
    """Guess the key from a parameter, for documents without a security scheme."""
    for path in node(document.raw.get("paths")).values():
        item = document.resolved(path)
        listed = [*nodes(item.get("parameters"))]
        for operation in item.values():
            listed += nodes(node(operation).get("parameters"))
        for parameter in map(document.resolved, listed):
            called, place = text(parameter.get("name")), text(parameter.get("in"))
            if not _looks_like_key(place, called) or not HEADER_NAME.fullmatch(called):
                continue
            note = f"no security scheme; guessed from the {place} parameter {called!r}"
            is_bearer = called.lower() == "authorization"
            return {"kind": "bearer"} if is_bearer else {"kind": place, "name": called}, [note]
    return {}, []


def _by_schemes(document: OpenApiDocument) -> tuple[Node, list[str]]:
    schemes = node(node(document.raw.get("components")).get("securitySchemes"))
    notes: list[str] = []
    for wanted in _requested_schemes(document, schemes):
        found, note = _of_scheme(document.resolved(schemes.get(wanted)))
        notes += [f"security scheme {wanted!r}: {note}"] if note else []
        if found:
            others = [other for other in schemes if other != wanted]
            if others:
                notes.append(f"{wanted!r} is used; other security schemes: {', '.join(others)}")
            return found, notes
    return {}, notes


def _requested_schemes(document: OpenApiDocument, schemes: Node) -> list[str]:
    """The required schemes: those of the whole document, then those of operations."""
    found = _named(document.raw.get("security"))
    for path in node(document.raw.get("paths")).values():
        for operation in node(path).values():
            found += _named(node(operation).get("security"))
    known = [name for name in dict.fromkeys(found) if name in schemes]
    # Simple schemes before those that need a flow to get a token.
    return sorted(known, key=lambda name: text(document.resolved(schemes[name]).get("type")) in _FLOWS)


_FLOWS = ("oauth2", "openIdConnect")


def _named(requirements: Any) -> list[str]:
    return [name for requirement in nodes(requirements) for name in node(requirement)]


def _of_scheme(scheme: Node) -> tuple[Node, str]:
    kind, name = text(scheme.get("type")), text(scheme.get("name"))
    form = text(scheme.get("scheme")).lower()
    if kind == "http" and form == "bearer":
        return {"kind": "bearer"}, ""
    if kind == "http" and form == "basic":
        note = "Basic: the key is user:password in base64"
        return {"kind": "header", "name": "Authorization", "prefix": "Basic "}, note
    if kind in _FLOWS:
        return {"kind": "bearer"}, f"{kind}: the key is an access token, which is not renewed"
    sound = HEADER_NAME.fullmatch(name) and name.lower() not in OUR_HEADERS
    if (
        kind == "apiKey"
        and (scheme.get("in") == "query" or (scheme.get("in") == "header" and sound))
        and name
    ):
        return {"kind": scheme["in"], "name": name}, ""
    where = f" in a {scheme['in']}" if isinstance(scheme.get("in"), str) else ""
    return {}, f"{kind or 'without a type'} {form}{where} is not supported".replace("  ", " ")


def base_url(document: OpenApiDocument, given: str, found_at: str) -> str:
    """`found_at` is the URL of the document, if it has one: relative URLs are below it."""
    documented = _documented(document)
    if found_at and not given:
        documented = urljoin(found_at, documented)
    url = _completed(given, documented) if given else documented
    try:
        ApiOrigin.parse(url)
    except BaseUrlError as error:
        if given:
            raise OpenApiError(f"the base URL {given!r} cannot be used: {error.what}") from None
        message = f"the document has no usable server URL ({documented!r})"
        raise OpenApiError(message, "give --base-url URL") from None
    return url.rstrip("/")


def _documented(document: OpenApiDocument) -> str:
    server = server_of(document)
    url = text(server.get("url")) or "/"
    for name, variable in node(server.get("variables")).items():
        url = url.replace(f"{{{name}}}", str(node(variable).get("default", "")))
    return url


def _completed(given: str, documented: str) -> str:
    """A given URL without a path gets the path of the document."""
    try:
        only_host = urlsplit(given).path in ("", "/")
        return urljoin(given, documented) if only_host and not urlsplit(documented).netloc else given
    except ValueError:
        return given


def server_of(document: OpenApiDocument) -> Node:
    """The first server of the document, or else of its paths."""
    found = nodes(document.raw.get("servers"))
    for path in node(document.raw.get("paths")).values():
        found = found or nodes(node(path).get("servers"))
    return node(found[0]) if found else {}
