"""Names as people write them: which of the items of a list is meant by one."""

import unicodedata
from typing import Any

from ..kit import ToolError
from .failures import tidy
from .replies import at
from .requests import text
from .table import Lookup
from .wording import Words, shortened

MOST_SHOWN = 10


class Names:
    """The names in the lists of a lookup. What is not found, or is not clear, is told with what there is."""

    def __init__(self, lookup: Lookup, words: Words) -> None:
        self._lookup = lookup
        self._words = words

    def only(self, items: list[Any], wanted: str, *, cut: bool = False) -> Any:
        """The id of the item that has the name; else of the only one that contains it, which nobody knows
        of a list that was `cut`."""
        same, like = self._matching(items, wanted)
        found = same or like
        if cut and not same:
            raise self._cut(items, wanted, like)
        if not found:
            raise self._not_found(items, wanted)
        known = self._ids(found)
        if len(known) > 1:
            raise ToolError(self._words.ambiguous.format(**self._told(wanted), names=self._listed(found)))
        return self._told_ids(known, wanted)[0]

    def several(self, items: list[Any], wanted: str, *, cut: bool = False) -> list[Any]:
        """The ids of all that contain the name."""
        _, like = self._matching(items, wanted)
        if cut:
            raise self._cut(items, wanted, like)
        if not like:
            raise self._not_found(items, wanted)
        return self._told_ids(self._ids(like), wanted)

    def _ids(self, found: list[Any]) -> list[Any]:
        """Each once: a list that grows while its pages are read shows an item on two of them."""
        known: list[Any] = []
        for item in found:
            if (id := at(item, self._lookup.id)) not in known:
                known.append(id)
        return known

    def _told_ids(self, known: list[Any], wanted: str) -> list[Any]:
        told = [id for id in known if id is not None]
        if not told:
            raise ToolError(self._words.without_id.format(**self._told(wanted), id=self._lookup.id))
        return told

    def _matching(self, items: list[Any], wanted: str) -> tuple[list[Any], list[Any]]:
        """The items that have the name, and those that contain it."""
        key = folded(wanted)
        if not key:  # nothing but accents, which would be in every name
            return [], []
        names = [(item, [folded(text(at(item, field))) for field in self._lookup.match]) for item in items]
        same = [item for item, known in names if key in known]
        return same, [item for item, known in names if any(key in name for name in known)]

    def _not_found(self, items: list[Any], wanted: str) -> ToolError:
        named = [item for item in items if self._label(item)]
        if items and not named:
            return self.unreadable(wanted)
        hint = self._words.there_are.format(names=self._listed(named)) if named else ""
        return ToolError(self._words.not_found.format(**self._told(wanted)) + hint)

    def _cut(self, items: list[Any], wanted: str, like: list[Any]) -> ToolError:
        hint = self._words.found_so_far.format(names=self._listed(like)) if like else ""
        return ToolError(self._words.list_cut.format(**self._told(wanted), count=len(items)) + hint)

    def unreadable(self, wanted: str) -> ToolError:
        """There is no list, or nothing in it has a name."""
        fields = ", ".join(map(repr, self._lookup.match))
        return ToolError(self._words.no_list.format(**self._told(wanted), fields=fields))

    def _told(self, wanted: str) -> dict[str, str]:
        return {"what": self._lookup.what or "item", "name": shortened(wanted.strip())}

    def _listed(self, items: list[Any]) -> str:
        shown = [
            f"{tidy(self._label(item), 60)} ({tidy(text(at(item, self._lookup.id)), 40) or '?'})"
            for item in items[:MOST_SHOWN]
        ]
        return ", ".join(shown) + (", …" if len(items) > MOST_SHOWN else "")

    def _label(self, item: Any) -> str:
        return next((name for field in self._lookup.match if (name := text(at(item, field)))), "")


def folded(name: str) -> str:
    """A name as people compare names: without case and accents, and with single blanks."""
    plain = unicodedata.normalize("NFKD", name)
    return " ".join("".join(mark for mark in plain if not unicodedata.combining(mark)).casefold().split())
