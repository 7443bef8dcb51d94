"""Search as the gateway offers it: the index, what the meta tools work with, and the view that shows them."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Config
from ..kit.hub import TOOLS_CHANGED, Event
from ..search.outcomes import Outcomes
from ..views.dialects import DIALECTS
from ..views.meta.native import Native
from ..views.meta.supplies import Supplies
from ..views.search import SearchView
from ..views.yard import Yard
from ..wire.types import Implementation
from .indexing import Indexing

if TYPE_CHECKING:
    from ..dispatch.remote import Remote
    from ..sessions.leases import Leases
    from ..sessions.profiles import Profiles
    from ..state.state import State


class Searching:
    """Build one, make a view of it, start and close it with the gateway."""

    def __init__(
        self,
        yard: Yard,
        config: Config,
        folder: Path | None,
        *,
        state: "State",
        leases: "Leases",
        remotes: "Callable[[], Mapping[str, Remote]]" = dict,
        profiles: "Profiles | None" = None,
    ) -> None:
        self._indexing = Indexing(yard.catalogue, None if folder is None else folder / _file(config))
        self._outcomes = Outcomes(state)
        self.supplies = Supplies(
            yard=yard,
            index=self._indexing.index,
            leases=leases,
            state=state,
            remotes=remotes,
            profiles=profiles,
        )
        self.measured = self._indexing.measured
        """Of a tool, by its full name: how many bytes a result had."""
        self.reload(config)

    def view(self, config: Config, implementation: Implementation) -> SearchView:
        made = {"native": Native, **DIALECTS}
        dialects = [made[name]() for name in config.gateway.dialects]
        return SearchView(self.supplies, dialects, implementation, config.gateway.instructions)

    def reload(self, config: Config) -> None:
        relisted = self.supplies.settings.list_found != config.search.list_found
        self.supplies.settings = config.search
        self.supplies.outcomes = self._outcomes if config.search.learn else None
        if relisted:
            # About no server: whoever's conversation is known has another list now.
            self.supplies.yard.catalogue.hub.publish(Event(TOOLS_CHANGED, ""))

    async def start(self) -> None:
        await self._indexing.start()

    async def close(self) -> None:
        await self._indexing.close()


def _file(config: Config) -> str:
    """Of each configuration: two that keep their state in one place have different tools."""
    place = str(config.files[0].resolve()) if config.files else ""
    return f"search-{hashlib.blake2b(place.encode(), digest_size=4).hexdigest()}.index"
