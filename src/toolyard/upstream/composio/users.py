"""As whom a caller's accounts are kept: `{tenant}`, `{agent}` and `{thread}` filled in.

Two callers who differ in a value that is named get different ids, whatever the values are.
"""

import re
from urllib.parse import quote

_NAMES = re.compile(r"\{(tenant|agent|thread)\}")
_APART = re.compile(r"[^A-Za-z0-9%]")
_UNSAFE = re.compile(r"[-._~]")


class UserIds:
    def __init__(self, template: str) -> None:
        pieces = _NAMES.split(template)
        self._texts = pieces[::2]
        self._names = pieces[1::2]
        for number in range(1, len(self._names)):
            if not _APART.search(self._texts[number]):
                self._texts[number] += "."

    def of(self, tenant: str, agent: str, thread: str) -> str:
        given = {"tenant": tenant, "agent": agent, "thread": thread}
        values = [given[name] for name in self._names]
        if len(values) > 1:  # `a-b` and `c` must not become what `a` and `b-c` become
            values = [_escaped(value) for value in values]
        filled = [text + value for text, value in zip(self._texts, [*values, ""], strict=True)]
        return "".join(filled) or "default"


def _escaped(value: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", quote(value, safe=""))
