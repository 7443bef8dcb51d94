"""The API keys and grants of a gateway, for commands that work without the gateway itself."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...callers.grants import Grants
    from ...callers.keys import ApiKeys
    from ...config import Config


@asynccontextmanager
async def open_credentials(settings: "Config", key: bytes | None) -> AsyncGenerator["tuple[ApiKeys, Grants]"]:
    """`key` is the gateway's own. Both accept what the gateway would, if it does not run with --open."""
    from ...callers.grants import Grants
    from ...callers.keys import ApiKeys
    from ...config.files import state_folder
    from ...state.factory import lasting_state
    from ...wire.seal import Sealer

    name, auth = settings.gateway.name, settings.auth
    sealer = Sealer(key, name)
    state, _ = lasting_state(settings.state.url, state_folder(settings), None, "keys and grants")
    keys = ApiKeys(state, name, sealer, owns_state=True)
    local = not auth.required and not settings.gateway.public_url
    grants = Grants(state, name, sealer, auth, keys=keys, agents=settings.access.agents, admits_local=local)
    try:
        yield keys, grants
    finally:
        await keys.close()
