"""Which conversation a meta tool works in: the call's own, or the one that its `session` argument names.

A search gives out the id of a session. Whoever brings it back, on another connection or to another replica,
goes on where that conversation was. Any other name begins a conversation of its own.
"""

import hashlib
from collections import OrderedDict
from contextlib import suppress

from msgspec.structs import replace

from ...sessions.leases import Lease
from ...state.errors import StateError
from ...wire.call import Call, Caller
from ...wire.threads import MAX_THREAD, thread_of
from ..yard import Yard
from .supplies import Supplies

MAX_TOLD = 10_000


def is_known(call: Call, yard: Yard) -> bool:
    """Whether a call is told apart from those of other conversations. All that name none share one thread."""
    return bool(thread_of(call)) or yard.one_client


class Threads:
    def __init__(self, supplies: Supplies) -> None:
        self._supplies = supplies
        self._told: OrderedDict[str, str] = OrderedDict()
        """What this process has written down already, so that it is not written with every search."""

    async def within(self, call: Call, session: str | None) -> Call:
        """The same call in the thread that is meant."""
        if not session:
            return call
        thread = await self._thread(call, session)
        return call if thread == thread_of(call) else in_thread(call, thread)

    async def _thread(self, call: Call, session: str) -> str:
        if session == thread_of(call) or await self._has(call, session):
            return thread_of(call)
        key = _key(call.caller.tenant, session)
        known = self._told.get(key)
        if known is None:
            with suppress(StateError):
                kept = await self._supplies.state.get(key)
                known = None if kept is None else kept.decode()
        return session[:MAX_THREAD] if known is None else known

    async def _has(self, call: Call, session: str) -> bool:
        """Whether it is the id of a session that the call's own thread has."""
        thread = thread_of(call)
        for upstream in ("", *self._supplies.remotes()):
            with suppress(StateError):
                lease = await self._supplies.leases.peek(call.caller.tenant, thread, upstream)
                if lease is not None and lease.id == session:
                    return True
        return False

    async def remember(self, call: Call, lease: Lease) -> None:
        """That this id stands for the call's thread, for as long as the session lives."""
        key, thread = _key(call.caller.tenant, lease.id), thread_of(call)
        if self._told.get(key) == thread:
            return
        with suppress(StateError):
            await self._supplies.state.put(key, thread.encode(), lease.ttl)
            self._told[key] = thread
            while len(self._told) > MAX_TOLD:
                self._told.popitem(last=False)


def in_thread(call: Call, thread: str) -> Call:
    caller = call.caller
    identity = replace(caller.identity, thread=thread)
    moved = Caller(caller.version, caller.capabilities, caller.client, identity, caller.log_level)
    return replace(call, caller=moved)


def _key(tenant: str, session: str) -> str:
    return "thread/" + hashlib.blake2b(f"{tenant}\0{session}".encode(), digest_size=16).hexdigest()
