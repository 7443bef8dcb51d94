"""Finding the templates that an address may be of, among many.

A template can only match what begins as it does up to its first variable, so those beginnings are looked
up; the templates themselves are compiled when one is first tried.
"""

from functools import lru_cache

from ..kit.template import Template

MAX_TRIED = 50


class Templates:
    def __init__(self, uris: list[str]) -> None:
        self._by_start: dict[str, list[str]] = {}
        for uri in uris:
            self._by_start.setdefault(uri.partition("{")[0], []).append(uri)
        self._lengths = sorted({len(start) for start in self._by_start}, reverse=True)

    def match(self, uri: str) -> str | None:
        """The template that an address is of, the one with the longest fixed beginning first."""
        tried = 0
        for length in self._lengths:
            for template in self._by_start.get(uri[:length], ()) if length <= len(uri) else ():
                tried += 1
                if tried > MAX_TRIED:
                    return None
                known = _compiled(template)
                # One of a form that we do not know may well be meant: its upstream will say.
                if known is None or known.match(uri) is not None:
                    return template
        return None


@lru_cache(maxsize=1024)
def _compiled(uri: str) -> Template | None:
    try:
        return Template(uri)
    except ValueError:
        return None
