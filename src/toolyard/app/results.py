"""Result shaping for the gateway: the policy of each tool, the shaper, and the reader of stored results."""

from typing import Any

from msgspec.structs import replace

from ..artifacts.store import ArtifactStore
from ..catalogue.catalogue import Catalogue
from ..catalogue.items import UpstreamItem, shown_name
from ..config import Config
from ..results.preview import widen_output_schema
from ..results.query.reader import ResultReader
from ..results.shaper import ResultPolicies, ResultPolicy, ResultShaper, ShapeRequest, TaskResults
from ..wire.call import Caller


class ResultShaping:
    def __init__(
        self, config: Config, catalogue: Catalogue, store: ArtifactStore, shaper: ResultShaper
    ) -> None:
        self.shaper = shaper
        self.policies = ResultPolicies(config)
        self.reader = ResultReader(store, config.results)
        self._tasks = TaskResults(shaper)
        self._catalogue = catalogue

    def reconfigure(self, config: Config) -> None:
        self.policies.reconfigure(config)
        self.reader.reconfigure(config.results)

    async def close(self) -> None:
        await self.reader.close()

    async def fit_task(self, state: Any, server: str, tool: str, id: str, caller: Caller, hint: str) -> Any:
        return await self._tasks.fit(state, id, ShapeRequest(caller, self.unlisted(server, tool), hint))

    def unlisted(self, server: str, own: str) -> ResultPolicy:
        """The policy of a tool that is known only by its upstream's own name."""
        found = self._catalogue.servers.get(server)
        if found is None:
            return ResultPolicy(shown_name(server, own), server, None)
        return self.policies.of(found.entry_of(own))


def with_widened_schema(item: UpstreamItem) -> UpstreamItem:
    """As it is listed: its output schema admits what may take the place of a result."""
    rest = widen_output_schema(item.rest)
    return item if rest is item.rest else replace(item, rest=rest)
