"""Which workbench files go to, from the settings and the variables that Composio's clients read."""

import os
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from ....composio import BASE_URL
from ....workbench import Workbenches
from ....workbench.composio import ComposioAccess, ComposioApi, ComposioStore, ComposioWorkbenches

KEY_VARIABLE, URL_VARIABLE, USER_VARIABLE = "COMPOSIO_API_KEY", "COMPOSIO_BASE_URL", "DEFAULT_USER_ID"

WorkbenchChoice = Literal["auto", "local", "composio"]


class WorkbenchPlace(Struct, frozen=True):
    """Where files go. `store` is None without a key of Composio."""

    kind: Literal["local", "composio"]
    workbenches: Workbenches
    store: ComposioStore | None
    close: Callable[[], Awaitable[None]]


def choose_workbench(
    choice: WorkbenchChoice,
    local: Callable[[], Workbenches],
    *,
    api_key: str = "",
    url: str = "",
    user_id: str = "",
    allow: tuple[str, ...] = (),
    max_bytes: int,
) -> WorkbenchPlace:
    """Raises ValueError if Composio's workbench is chosen and there is no key.

    Composio's store is used whenever there is a key: attachments go there from any workbench.
    """
    key = (api_key or os.environ.get(KEY_VARIABLE, "")).strip()
    if not key:
        if choice == "composio":
            raise ValueError(f"it needs a key of Composio: set {KEY_VARIABLE}")
        benches = local()
        return WorkbenchPlace("local", benches, None, benches.close)
    access = ComposioAccess(
        api_key=key,
        base_url=url or os.environ.get(URL_VARIABLE, "") or BASE_URL,
        user_id=user_id or os.environ.get(USER_VARIABLE, "") or "{user}",
        allow=allow,
        max_bytes=max_bytes,
    )
    api = ComposioApi(access)
    if choice != "local":
        remote = ComposioWorkbenches(api)
        return WorkbenchPlace("composio", remote, ComposioStore(api), remote.close)
    benches = local()

    async def close() -> None:
        await benches.close()
        await api.close()

    return WorkbenchPlace("local", benches, ComposioStore(api), close)
