"""Where the API is, as far as the document says."""

from urllib.parse import urljoin, urlsplit

from ..origin import Origin, WrongAddress
from .document import Document, DocumentError, Node, node, nodes, text


def base_url(document: Document, wished: str, found_at: str) -> str:
    """`found_at` is the URL of the document, if it came from one: relative addresses are meant below it."""
    said = _said(document)
    if found_at and not wished:
        said = urljoin(found_at, said)
    url = _wished(wished, said) if wished else said
    try:
        Origin.parse(url)
    except WrongAddress as error:
        if wished:
            raise DocumentError(f"the address {wished!r} cannot be used: {error.what}") from None
        unsaid = f"the document does not say where the API is ({said!r})"
        raise DocumentError(unsaid, "give --base-url URL") from None
    return url.rstrip("/")


def _said(document: Document) -> str:
    server = server_of(document)
    url = text(server.get("url")) or "/"
    for name, variable in node(server.get("variables")).items():
        url = url.replace(f"{{{name}}}", str(node(variable).get("default", "")))
    return url


def _wished(wished: str, said: str) -> str:
    """An address without a path is only where the API is; the document knows its path."""
    try:
        only_host = urlsplit(wished).path in ("", "/")
        return urljoin(wished, said) if only_host and not urlsplit(said).netloc else wished
    except ValueError:
        return wished


def server_of(document: Document) -> Node:
    """The first that is named; where the document names none, that of its first path which does."""
    found = nodes(document.raw.get("servers"))
    for path in node(document.raw.get("paths")).values():
        found = found or nodes(node(path).get("servers"))
    return node(found[0]) if found else {}
