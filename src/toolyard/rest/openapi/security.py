"""From security schemes to `[auth]`: which key the API wants, and where."""

import re
from typing import Any

from ..words import HEADER_NAME, OUR_HEADERS
from .document import Document, Node, node, nodes, text


def auth(document: Document, name: str) -> tuple[Node, list[str]]:
    """The table, empty when no key is wanted, and what has to be said about it."""
    schemes = node(node(document.raw.get("components")).get("securitySchemes"))
    notes: list[str] = []
    for wanted in _wishes(document, schemes):
        found, said = _of_scheme(document.resolved(schemes.get(wanted)))
        notes += [f"security scheme {wanted!r}: {said}"] if said else []
        if found:
            variable = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
            others = [other for other in schemes if other != wanted]
            if others:
                notes.append(f"security schemes beside {wanted!r}, which is used: {', '.join(others)}")
            return {**found, "variable": f"{variable}_API_KEY".lstrip("0123456789_")}, notes
    return {}, notes


def _wishes(document: Document, schemes: Node) -> list[str]:
    """The schemes that are asked for, the document's own first; those of single operations after them."""
    found = _named(document.raw.get("security"))
    for path in node(document.raw.get("paths")).values():
        for operation in node(path).values():
            found += _named(node(operation).get("security"))
    known = [name for name in dict.fromkeys(found) if name in schemes]
    # Simple ones before those that need a dance to get a token.
    return sorted(known, key=lambda name: text(document.resolved(schemes[name]).get("type")) in _DANCES)


_DANCES = ("oauth2", "openIdConnect")


def _named(requirements: Any) -> list[str]:
    return [name for requirement in nodes(requirements) for name in node(requirement)]


def _of_scheme(scheme: Node) -> tuple[Node, str]:
    kind, name = text(scheme.get("type")), text(scheme.get("name"))
    form = text(scheme.get("scheme")).lower()
    if kind == "http" and form == "bearer":
        return {"kind": "bearer"}, ""
    if kind == "http" and form == "basic":
        said = "Basic: the key is user:password in base64"
        return {"kind": "header", "name": "Authorization", "prefix": "Basic "}, said
    if kind in _DANCES:
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
