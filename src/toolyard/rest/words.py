"""What names may look like: of tools, headers, variables and statuses."""

import re

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PARAMETER_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""What the APIs of models take as the name of an argument; others make them refuse every tool."""
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ERROR_KEY = re.compile(r"[1-5][0-9][0-9]|[45]xx")
MEDIA_TYPE = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]{1,100}/([A-Za-z0-9!#$&^_.+-]{1,100}|\*)(; ?[\x21-\x7e]{1,100})*"
)
NO_CONTROLS = re.compile(r"[\x20-\x7e]*")

OUR_HEADERS = frozenset(
    {
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "accept-encoding",
        "expect",
        "te",
        "trailer",
        "upgrade",
        "keep-alive",
    }
)
"""Those that say how a message is carried; a table that wrote them could make two requests of one."""
