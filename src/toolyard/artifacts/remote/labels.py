"""What is known of a remote result, as one line that its object carries along.

It lies with the object itself and not beside it: both are there or neither is, one request finds both, and a
lifecycle rule of the bucket needs to know nothing. The size is the object's own. The tenant is not in it:
whoever holds a link can read this line.
"""

from urllib.parse import parse_qs, urlencode

from msgspec import Struct

_VERSION = "1"


class About(Struct, frozen=True):
    tool: str
    created: float
    expires: float
    encoding: str


def written(about: About) -> str:
    return urlencode(
        {
            "v": _VERSION,
            "created": f"{about.created:.3f}",
            "expires": f"{about.expires:.3f}",
            "encoding": about.encoding,
            "tool": about.tool[:200],
        }
    )


def read(line: str) -> About | None:
    """None when it is no line of ours."""
    try:
        found = {name: values[0] for name, values in parse_qs(line, strict_parsing=True).items()}
        return About(
            found.get("tool", ""), float(found["created"]), float(found["expires"]), found["encoding"]
        )
    except (KeyError, ValueError):
        return None
