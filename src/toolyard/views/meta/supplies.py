"""What the meta tools work with. The app builds it and hands it down."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from ...config import SearchConfig
from ..yard import Yard

if TYPE_CHECKING:
    from ...dispatch.remote import Remote
    from ...search.index import Index
    from ...search.outcomes import Outcomes
    from ...sessions.leases import Leases
    from ...sessions.profiles import Profiles
    from ...state.state import State


class Supplies(Struct, kw_only=True):
    yard: Yard
    index: "Callable[[], Awaitable[Index]]"
    """With everything that the catalogue has by now."""
    leases: "Leases"
    state: "State"
    """Which thread a session's id stands for is kept there, so that any replica knows it."""
    remotes: "Callable[[], Mapping[str, Remote]]"
    """By server name; which there are may change with the configuration."""
    settings: SearchConfig = SearchConfig()
    outcomes: "Outcomes | None" = None
    """None: nothing is learnt."""
    profiles: "Profiles | None" = None
