"""Rotation of the master key, for keys in a file: makes the new one, moves all tenants, drops old ones.

With any other source the user names the new one in `key` and the old one in `previous` of `[vault]`; then
only the tenants have to be moved. Either can be stopped at any time and begun again.
"""

import asyncio
from collections.abc import Callable

from .base import VaultKeyError
from .master_keys import FileSource, LocalKey, new_key
from .vault import Rotation, Vault


async def rotate(
    vault: Vault, *, forget: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> Rotation:
    """`forget` drops the key before the current one too, which is kept for gateways that run otherwise."""
    source = vault.keys.source
    if not isinstance(source, FileSource):
        if not vault.keys.previous and not await _is_half_done(vault):
            raise VaultKeyError(
                f"there is no new master key to rotate to: all tenants have {source.shown}",
                "name the new one in `key` and this one in `previous` of [vault], restart the gateways, "
                "then run it again",
            )
        return await vault.rotate(on_progress)
    keys = await asyncio.to_thread(source.load)
    in_use = await vault.masters_in_use()
    others = in_use - {keys[0].id}
    if not others:
        keys = [new_key(), *keys]
        await asyncio.to_thread(source.write, keys)
    done = await vault.rotate(on_progress)
    await asyncio.to_thread(source.write, await _worth_keeping(vault, keys, forget))
    return done


async def _is_half_done(vault: Vault) -> bool:
    return bool(await vault.masters_in_use() - {(await vault.keys.current()).id})


async def _worth_keeping(vault: Vault, keys: list[LocalKey], forget: bool) -> list[LocalKey]:
    """The current key and the one before: a gateway may be about to wrap a new tenant by that."""
    in_use = await vault.masters_in_use()
    return [key for at, key in enumerate(keys) if at == 0 or (at == 1 and not forget) or key.id in in_use]
