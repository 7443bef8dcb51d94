"""The quota of each tenant, kept also while several results are written at once.

Owns the arithmetic; a callback of the store counts a tenant's bytes. It counts only now and then, so results
of other gateways are noticed late, and a quota may be exceeded by them until then.
"""

import asyncio
from collections.abc import Awaitable, Callable

from .store import ArtifactStoreError, ArtifactStoreFullError, now

CountBytes = Callable[[str], Awaitable[int]]
FULL_RECOUNT_SECONDS = 10.0
"""The shortest time between two counts for a tenant whose quota is used up."""


class _Account:
    def __init__(self) -> None:
        self.kept = 0
        self.pending = 0
        """Bytes of results that are being written."""
        self.finished = 0
        """Bytes finished during a count, which may have missed them."""
        self.counted_at: float | None = None
        self.counting = asyncio.Lock()

    @property
    def used(self) -> int:
        return self.kept + self.pending


class Quotas:
    def __init__(self, limit: int, count: CountBytes, recount_seconds: float) -> None:
        self.limit = limit
        self._count = count
        self._recount_seconds = recount_seconds
        self._accounts: dict[str, _Account] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def reserve(self, tenant: str) -> "QuotaReservation":
        """Begin a result; raises ArtifactStoreFullError if the quota is used up."""
        account = self._accounts.setdefault(tenant, _Account())
        if account.counted_at is None:
            await self._recount(tenant, account, self._recount_seconds)
        elif now() - account.counted_at > self._recount_seconds:
            task = asyncio.create_task(self._recount_in_background(tenant, account))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if account.used >= self.limit:
            await self._recount(tenant, account, FULL_RECOUNT_SECONDS)
        if account.used >= self.limit:
            raise ArtifactStoreFullError(f"the quota of {self.limit} bytes is used up ({account.used} bytes)")
        return QuotaReservation(account, self.limit)

    async def _recount(self, tenant: str, account: _Account, max_age: float) -> None:
        async with account.counting:
            if account.counted_at is not None and now() - account.counted_at <= max_age:
                return
            account.finished = 0
            counted = await self._count(tenant)
            account.kept = counted + account.finished
            account.counted_at = now()

    async def _recount_in_background(self, tenant: str, account: _Account) -> None:
        try:
            await self._recount(tenant, account, self._recount_seconds)
        except ArtifactStoreError:
            account.counted_at = now()  # keep the last count; the write itself will fail with the reason

    def invalidate(self) -> None:
        """Count again, because results were removed, and drop tenants who write nothing."""
        for tenant, account in list(self._accounts.items()):
            account.counted_at = None
            if not account.pending:
                del self._accounts[tenant]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class QuotaReservation:
    """The bytes that one unfinished result takes of its tenant's quota."""

    def __init__(self, account: _Account, limit: int) -> None:
        self._account = account
        self._limit = limit
        self._reserved = 0

    def add(self, size: int) -> None:
        left = self._limit - self._account.used
        if size > left:
            raise ArtifactStoreFullError(
                f"it needs more than the {left + self._reserved} bytes left of the quota"
            )
        self._reserved += size
        self._account.pending += size

    def commit(self) -> None:
        """The result is stored: its bytes count from now on."""
        size = self._end()
        self._account.kept += size
        self._account.finished += size

    def release(self) -> None:
        self._end()

    def _end(self) -> int:
        size, self._reserved = self._reserved, 0
        self._account.pending -= size
        return size
