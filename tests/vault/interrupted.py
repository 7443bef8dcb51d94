"""A vault where something happens in the middle: between two steps on its store."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from toolyard.state import State, open_state
from toolyard.vault.master_keys import FileSource, MasterKeys
from toolyard.vault.vault import Vault

Step = Literal["get", "swap"]


class InterruptedState:
    """Lets something happen once, after a key with this prefix was read or before it is written."""

    def __init__(
        self, state: State, at: Step, prefix: str, meanwhile: Callable[[], Awaitable[object]]
    ) -> None:
        self._state = state
        self._at: Step | None = at
        self._prefix = prefix
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    async def get(self, key: str) -> bytes | None:
        found = await self._state.get(key)
        await self._interrupt("get", key)
        return found

    async def swap(self, key: str, *about: Any) -> bool:
        await self._interrupt("swap", key)
        return await self._state.swap(key, *about)

    async def _interrupt(self, at: Step, key: str) -> None:
        if at == self._at and key.startswith(self._prefix):
            self._at = None
            await self._meanwhile()


def interrupted(key: Path, at: Step, prefix: str, meanwhile: Callable[[], Awaitable[object]]) -> Vault:
    """The vault beside this key file."""
    state: Any = InterruptedState(open_state("sqlite:", key.parent), at, prefix, meanwhile)
    return Vault(state, MasterKeys(FileSource(key)), owns_state=True)
