"""Addresses with variables: `{name}` stands for one segment or a part of it, `{+name}` for any rest.

Where two variables share a segment, the first ends where what follows it in the template begins: an
address is read in one way only, and in linear time, whoever wrote it.
"""

import re
from urllib.parse import unquote

_VARIABLE = re.compile(r"\{(\+?)(\w+)\}")


class Template:
    def __init__(self, uri: str) -> None:
        self._uri = uri
        found = list(_VARIABLE.finditer(uri))
        self.variables = [match[2] for match in found]
        self._check(found)
        self._pattern = self._compile(found)

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables' values in an address, percent-decoded, or None when it is another's."""
        match = self._pattern.fullmatch(uri)
        return {key: unquote(value) for key, value in match.groupdict().items()} if match else None

    def _check(self, found: list[re.Match[str]]) -> None:
        rest = _VARIABLE.sub("", self._uri)
        if "{" in rest or "}" in rest:
            raise self._wrong("in a template, variables are {name} or {+name}")
        if len(set(self.variables)) < len(self.variables):
            raise self._wrong(f"one of its variables {self.variables} is named twice")
        if sum(1 for match in found if match[1]) > 1:
            raise self._wrong("a template may have one of its variables in the form {+name}")
        for match in found[:-1]:
            following = self._uri[match.end()]
            if following == "{":
                raise self._wrong("two variables need something between them")
            if match[1] and following not in "/?#":
                raise self._wrong(f"variables after {match[0]} need a '/' before them")

    def _wrong(self, why: str) -> ValueError:
        return ValueError(f"resource {self._uri!r}: {why}")

    def _compile(self, found: list[re.Match[str]]) -> re.Pattern[str]:
        parts: list[str] = []
        end = 0
        for match in found:
            parts.append(re.escape(self._uri[end : match.start()]))
            end = match.end()
            # Only before another variable of the same segment could it be read in two ways.
            shares = "{" in re.split("[/?#]", self._uri[end:])[0]
            stops = re.escape("/?#" + (self._uri[end] if shares else ""))
            parts.append(f"(?P<{match[2]}>{'.+' if match[1] else f'[^{stops}]+'})")
        return re.compile("".join(parts) + re.escape(self._uri[end:]), re.DOTALL)
