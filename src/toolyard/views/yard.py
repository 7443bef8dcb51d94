"""What every view stands on."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..catalogue.catalogue import Catalogue
from ..dispatch import Mount
from ..pipeline import Handler
from ..wire.call import Call, Caller
from ..wire.seal import Sealer
from .stored import Shelved
from .tickets import Tickets


class FitTask(Protocol):
    """`id` is the server's own for the task; `more` says how its caller reads on where a result is cut."""

    async def __call__(
        self, state: Any, server: str, tool: str, id: str, caller: Caller, more: str
    ) -> Any: ...


async def _as_it_is(state: Any, server: str, tool: str, id: str, caller: Caller, more: str) -> Any:
    return state


class Yard:
    """Shared by all of them."""

    def __init__(
        self, catalogue: Catalogue, mounts: Mapping[str, Mount], forward: Handler, sealer: Sealer
    ) -> None:
        self.catalogue = catalogue
        self.mounts = mounts
        self.forward = forward
        self.tickets = Tickets(sealer)
        self.page_size = 500
        self.list_wait = 5.0
        self.one_client = False
        """Whether a single client is served, as over stdio: all it does is one conversation, named or not."""
        self.stored: Shelved | None = None
        """Whole results; None where results pass as they are."""
        self.fit_task: FitTask = _as_it_is
        """A task's state, its result such that it fits."""
        self.touch: Callable[[], None] = lambda: None
        """Somebody looks at the lists; old ones may be read anew."""
        self.health: Callable[[], dict[str, Any]] = lambda: {"status": "ok"}
        """What a view of everything shows of it."""
        self.met: Callable[[Call], None] = lambda call: None
        """A client has introduced itself."""
