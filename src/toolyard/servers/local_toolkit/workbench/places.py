"""Which workbench files go to, from the settings and the variables that Composio's clients read."""

import os
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from ....composio import BASE_URL, KEY_VARIABLE, URL_VARIABLE, USER_VARIABLE
from ....kit.loader import SettingsError
from ....workbench.composio import ComposioAccess, ComposioApi, ComposioStore, ComposioWorkbenches
from ....workbench.files import FileWorkbenches, LocalFiles
from ....workspace import Workspaces
from ..settings import Settings


class WorkbenchPlace(Struct, frozen=True):
    """Where files go. `store` is None without a key of Composio."""

    kind: Literal["local", "composio"]
    workbenches: FileWorkbenches
    store: ComposioStore | None
    close: Callable[[], Awaitable[None]]


def choose_workbench(settings: Settings, workspaces: Workspaces) -> WorkbenchPlace:
    """Composio's store is used whenever there is a key: attachments go there from any workbench."""
    key = (settings.composio_api_key or os.environ.get(KEY_VARIABLE, "")).strip()
    local = LocalFiles(workspaces)
    if not key:
        if settings.workbench == "composio":
            raise SettingsError(f"field 'workbench': Composio needs a key; set {KEY_VARIABLE}")
        return WorkbenchPlace("local", local, None, local.close)
    url = settings.composio_url or os.environ.get(URL_VARIABLE, "") or BASE_URL
    if not url.startswith(("https://", "http://")):
        raise SettingsError(f"field 'composio_url': {url[:200]!r} is not an address of the web")
    try:
        api = ComposioApi(
            ComposioAccess(
                api_key=key,
                base_url=url,
                user_id=settings.composio_user or "{user}",
                default_user=settings.composio_default_user or os.environ.get(USER_VARIABLE, ""),
                allow=settings.allowed,
                max_bytes=settings.transfer_bytes,
            )
        )
    except ValueError as error:
        raise SettingsError(f"field 'allow': {error}") from None
    if settings.workbench == "local":
        return WorkbenchPlace("local", local, ComposioStore(api), api.close)
    remote = ComposioWorkbenches(api)
    return WorkbenchPlace("composio", remote, ComposioStore(api), remote.close)
