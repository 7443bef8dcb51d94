"""How much each tenant keeps: never more than the quota, however many results are written at once.

Owns the arithmetic. What lies in the store is counted by whoever has the store, once in a while: what other
gateways put there is seen then, and until then a quota may be overdrawn by as much.
"""

import asyncio
from collections.abc import Awaitable, Callable

from .store import ArtifactStoreError, ArtifactStoreFullError, now

Count = Callable[[str], Awaitable[int]]
AGAIN_SECONDS = 10.0
"""A tenant who has no room left is counted anew this often at most."""


class _Account:
    """What is known of one tenant."""

    def __init__(self) -> None:
        self.kept = 0
        self.written = 0
        """Bytes that are on their way."""
        self.finished = 0
        """Bytes that arrived while the store was counted: the count may have missed them."""
        self.counted_at: float | None = None
        self.counting = asyncio.Lock()

    @property
    def used(self) -> int:
        return self.kept + self.written


class Quotas:
    def __init__(self, limit: int, count: Count, fresh: float) -> None:
        self.limit = limit
        self._count = count
        self._fresh = fresh
        self._accounts: dict[str, _Account] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def share(self, tenant: str) -> "QuotaReservation":
        """Room for one result; Full when there is none."""
        account = self._accounts.setdefault(tenant, _Account())
        if account.counted_at is None:
            await self._recount(tenant, account, self._fresh)
        elif now() - account.counted_at > self._fresh:
            task = asyncio.create_task(self._recount_beside(tenant, account))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if account.used >= self.limit:
            await self._recount(tenant, account, AGAIN_SECONDS)
        if account.used >= self.limit:
            raise ArtifactStoreFullError(
                f"the {account.used} bytes that are kept already are the quota of {self.limit}"
            )
        return QuotaReservation(account, self.limit)

    async def _recount(self, tenant: str, account: _Account, fresh: float) -> None:
        async with account.counting:
            if account.counted_at is not None and now() - account.counted_at <= fresh:
                return
            account.finished = 0
            counted = await self._count(tenant)
            account.kept = counted + account.finished
            account.counted_at = now()

    async def _recount_beside(self, tenant: str, account: _Account) -> None:
        try:
            await self._recount(tenant, account, self._fresh)
        except ArtifactStoreError:
            account.counted_at = now()  # what was known stays; the write itself will say what is wrong

    def forget(self) -> None:
        """Something was removed: count anew, and let go of tenants who write nothing."""
        for tenant, account in list(self._accounts.items()):
            account.counted_at = None
            if not account.written:
                del self._accounts[tenant]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class QuotaReservation:
    """What one result takes of its tenant's quota, while it is written."""

    def __init__(self, account: _Account, limit: int) -> None:
        self._account = account
        self._limit = limit
        self._taken = 0

    def take(self, size: int) -> None:
        left = self._limit - self._account.used
        if size > left:
            raise ArtifactStoreFullError(
                f"it would take more than the {left + self._taken} bytes that are left of the quota"
            )
        self._taken += size
        self._account.written += size

    def keep(self) -> None:
        """It was written: what was taken stays taken."""
        size = self._settled()
        self._account.kept += size
        self._account.finished += size

    def give_back(self) -> None:
        self._settled()

    def _settled(self) -> int:
        size, self._taken = self._taken, 0
        self._account.written -= size
        return size
