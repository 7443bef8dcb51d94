"""Names under which tools and prompts are shown: `mcp__<server>__<tool>`.

A name depends on its server and tool alone, so mounting another server never changes it. What does not
fit `[a-zA-Z0-9_-]{1,64}` is made to fit and gets a hash of the original, so that no two meet.
"""

import hashlib
import re
from urllib.parse import quote

ALIAS = "toolyard://"
MAX_NAME = 64
MAX_SERVER = 20
_FIT = re.compile(r"[a-zA-Z0-9_-]+")
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]+")
_HASH = 8
_MARKED = re.compile(r"_[0-9a-f]{8}$")


def shown_name(server: str, own: str) -> str:
    plain = f"mcp__{server}__{own}"
    # A double underscore in the server's name, or what looks like our own mark, could make two look the same.
    clear = "__" not in server and not server.endswith("_") and not _MARKED.search(own)
    if len(plain) <= MAX_NAME and _FIT.fullmatch(plain) and clear:
        return plain
    mark = hashlib.blake2b(f"{server}\0{own}".encode(), digest_size=_HASH // 2).hexdigest()
    start = f"mcp__{_slug(server)[:MAX_SERVER].rstrip('_-')}__"
    room = MAX_NAME - len(start) - _HASH - 1
    return f"{start}{_slug(own)[:room].rstrip('_-')}_{mark}"


def prefix_of(server: str) -> str:
    """How the names of a server's tools begin."""
    return "__".join(shown_name(server, "x").split("__", 2)[:2]) + "__"


def alias(server: str, uri: str) -> str:
    """An address that says whose it is: `toolyard://<server>/<address, percent-encoded>`."""
    return f"{ALIAS}{quote(server, safe='')}/{quote(uri, safe='')}"


def _slug(text: str) -> str:
    return re.sub(r"__+", "_", _UNFIT.sub("_", text)).strip("_-") or "x"
