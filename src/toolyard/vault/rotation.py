"""Rotation of the master key, for keys in a file: makes the new one and moves all tenants to it.

With any other source the user names the new one in `key` and the old one in `previous` of `[vault]`; then
only the tenants have to be moved. Either can be stopped at any time and begun again.

Old keys stay in the file until somebody wants them forgotten: only that person knows whether a backup of the
store, or another store with the same file, still needs them.
"""

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from .base import VaultKeyError, VaultUnavailableError
from .master_keys import FileSource, LocalKey, new_key
from .vault import TRIES, Rotation, Vault


async def rotate(
    vault: Vault, *, forget: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> Rotation:
    """`forget` drops keys of a file that wrap nothing in this vault's store any more."""
    source = vault.keys.source
    if not isinstance(source, FileSource):
        if not vault.keys.previous and not await _is_half_done(vault):
            raise VaultKeyError(
                f"there is no new master key to rotate to: all tenants have {source.shown}",
                "name the new one in `key` and this one in `previous` of [vault], restart the gateways, "
                "then run it again",
            )
        return await vault.rotate(on_progress)
    with source.changing():
        keys = await asyncio.to_thread(source.load)
        if not await _is_half_done(vault):
            keys = [new_key(), *keys]
            await asyncio.to_thread(source.write, keys)
        done = await vault.rotate(on_progress)
        left = await _settle(vault, source, keys, forget)
        if left[0].id != done.master:
            raise VaultKeyError(
                f"somebody else has changed the master keys in {source.shown} meanwhile", "run it again"
            )
        return replace(done, dropped=tuple(key.id for key in keys if key.id not in {k.id for k in left}))


async def _is_half_done(vault: Vault) -> bool:
    """Whether an earlier key still wraps something. Raises VaultKeyError if that key is not known here."""
    await vault.keys.read_again()
    earlier = await vault.masters_in_use() - {(await vault.keys.current()).id}
    unknown = sorted(earlier.difference(vault.keys.ids))
    if unknown:
        # A new key beside it would only make it harder to see which file has which.
        raise VaultKeyError(
            f"the master key {unknown[0]!r} wraps keys of tenants and is not known here "
            f"(known: {', '.join(vault.keys.ids)}, from {vault.keys.source.shown})",
            "add it to the key file as a line of its own, or name its source in `previous` of [vault]; "
            "nothing was changed",
        )
    return bool(earlier)


async def _settle(
    vault: Vault, source: FileSource, ours: Sequence[LocalKey], forget: bool
) -> Sequence[LocalKey]:
    """Drop what may be forgotten, and look again until the file has every known key that wraps something.

    Those who do not know our lock may wrap by an old key at any time, or put another file there.
    """
    for _ in range(TRIES):
        there = await asyncio.to_thread(source.load)
        in_use = await vault.masters_in_use()
        left = [key for at, key in enumerate(there) if at == 0 or not forget or key.id in in_use]
        missing = in_use.difference(key.id for key in left)
        left += [key for key in ours if key.id in missing]
        if [key.id for key in left] == [key.id for key in there]:
            return left
        await asyncio.to_thread(source.write, left)
    raise VaultUnavailableError(f"others keep changing the master keys in {source.shown}", "run it again")
