"""Whether a value that goes into a file looks like a secret. It is only a reason for a hint."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .shapes import as_object

_NAMES = re.compile(
    r"token|secret|passw|passphrase|api.?key|access.?key|private.?key|auth|credential|cookie|^key$|_key$",
    re.I,
)
_VALUES = re.compile(
    r"(?:bearer|basic|token)\s+\S|(?:sk|pk|rk)[-_]\w|gh[pousr]_|github_pat_|xox[a-z]-|AKIA|eyJ", re.I
)


def secrets_in(fields: Mapping[str, Any]) -> Iterator[str]:
    """The keys, as `env.TOKEN`, whose values look like secrets. A `${VARIABLE}` is none."""
    for table in ("env", "headers"):
        for name, value in as_object(fields.get(table)).items():
            written_out = isinstance(value, str) and value and "${" not in value
            if written_out and (_NAMES.search(name) or _VALUES.match(value)):
                yield f"{table}.{name}"
