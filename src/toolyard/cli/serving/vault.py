"""The vault of a configuration, for commands that work without the gateway itself."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from ..ui.messages import CommandError

if TYPE_CHECKING:
    from ...config import Config
    from ...vault.vault import Vault

T = TypeVar("T")


def require_vault(config: "Config") -> None:
    """Raises CommandError if the configuration needs the vault, and the vault cannot be used."""
    from ...config.files import state_folder
    from ...state.store import StateError
    from ...vault.base import VaultError, VaultUnavailableError
    from ...vault.factory import check_vault, needs_vault

    if not needs_vault(config):
        return

    def check() -> None:
        asyncio.run(check_vault(config, state_folder(config)))

    try:
        # In a thread, because some commands have a loop that runs already.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(check).result()
    except VaultUnavailableError:
        pass  # the store does not answer now, which the gateway says as often as it matters
    except VaultError as error:
        raise CommandError(f"the vault cannot be used: {error.message}", error.hint) from None
    except StateError as error:
        raise CommandError(error.message, *([error.hint] if error.hint else [])) from None


def unconnected_servers(config: "Config") -> dict[str, str]:
    """Servers that whoever runs the gateway has no account at, and why, if the vault can say it."""
    from ...app.connections import GatewayConnections
    from ...config.files import state_folder
    from ...upstream.http.client import PooledHttpClient
    from ...vault.factory import is_made
    from ...wire.call import Principal
    from ...wire.errors import McpError

    wanting = [server for server in config.servers if server.auth is not None]
    if not wanting or not is_made(config, state_folder(config)):
        return {server.name: "not connected yet" for server in wanting}

    async def ask(vault: "Vault") -> dict[str, str]:
        connections, found = GatewayConnections(vault, PooledHttpClient()), dict[str, str]()
        for server in wanting:
            accounts = connections.open(server, lambda: None)
            try:
                state = await accounts.state(Principal())
            except McpError:
                continue
            finally:
                await accounts.close()
            if not state.connected:
                found[server.name] = state.reason
        return found

    return with_vault(config, ask)


def with_vault(config: "Config", work: "Callable[[Vault], Awaitable[T]]") -> T:
    """Runs work with the vault, and closes it; VaultErrors become CommandErrors."""
    from ...config.files import state_folder
    from ...vault.base import VaultError
    from ...vault.factory import open_vault

    async def run() -> T:
        vault = open_vault(config, state_folder(config))
        try:
            return await work(vault)
        finally:
            await vault.close()

    try:
        return asyncio.run(run())
    except VaultError as error:
        raise CommandError(error.message, error.hint) from None
