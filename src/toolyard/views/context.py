"""What all views share, and what the meta tools need besides. The app builds both."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ..catalogue.catalogue import Catalogue
from ..config import SearchConfig
from ..dispatch import Mount
from ..pipeline import Handler
from ..wire.call import Call, Caller
from ..wire.seal import Sealer
from .forwarding import SealedTaskIds
from .stored_results import StoredResults

if TYPE_CHECKING:
    from ..dispatch.remote import Remote
    from ..search.feedback import SearchFeedback
    from ..search.index import ToolIndex
    from ..sessions.leases import Leases
    from ..sessions.profiles import ProfileStore
    from ..state.store import State


class FitTask(Protocol):
    """`id` is the server's own for the task; `more` says how its caller reads on where a result is cut."""

    async def __call__(
        self, state: Any, server: str, tool: str, id: str, caller: Caller, more: str
    ) -> Any: ...


async def _unchanged(state: Any, server: str, tool: str, id: str, caller: Caller, more: str) -> Any:
    return state


class ViewContext:
    """Shared by all of them."""

    def __init__(
        self, catalogue: Catalogue, mounts: Mapping[str, Mount], forward: Handler, sealer: Sealer
    ) -> None:
        self.catalogue = catalogue
        self.mounts = mounts
        self.forward = forward
        self.tickets = SealedTaskIds(sealer)
        self.page_size = 500
        self.list_wait = 5.0
        self.one_client = False
        """Whether a single client is served, as over stdio: all it does is one conversation, named or not."""
        self.stored: StoredResults | None = None
        """Whole results; None where results pass as they are."""
        self.fit_task: FitTask = _unchanged
        """A task's state, its result such that it fits."""
        self.touch: Callable[[], None] = lambda: None
        """Somebody looks at the lists; old ones may be read anew."""
        self.health: Callable[[], dict[str, Any]] = lambda: {"status": "ok"}
        """What a view of everything shows of it."""
        self.met: Callable[[Call], None] = lambda call: None
        """A client has introduced itself."""


class MetaToolContext(Struct, kw_only=True):
    yard: ViewContext
    index: "Callable[[], Awaitable[ToolIndex]]"
    """With everything that the catalogue has by now."""
    leases: "Leases"
    state: "State"
    """Which thread a session's id stands for is kept there, so that any replica knows it."""
    remotes: "Callable[[], Mapping[str, Remote]]"
    """By server name; which there are may change with the configuration."""
    settings: SearchConfig = SearchConfig()
    outcomes: "SearchFeedback | None" = None
    """None: nothing is learnt."""
    profiles: "ProfileStore | None" = None
