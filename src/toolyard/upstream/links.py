"""The open links to one upstream: opened when needed, one at a time for each kind of caller, kept, renewed.

A modern upstream has one link for all. A legacy one has a session for each profile, since it must be
told at its beginning what its client can be asked; and one for each caller who brings a key.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextvars import Context

from ..wire.call import Call
from .errors import Busy, NotReached, Starting, UpstreamError
from .link import NOBODY, About, Connector, Link, Profile, Start, Watcher, profile_of

MAX_LINKS = 64
MAX_LINKS_EACH = 16
IDLE_SECONDS = 300.0
LIVED_SECONDS = 1.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
AGAIN_SECONDS = 5.0
"""When a caller may ask again for a program that is starting."""


class Backoff:
    """How long to wait after a failure: twice as long each time, with jitter, up to two seconds.

    It keeps a flood of calls from becoming a flood of attempts; a breaker is there for the rest.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._until = 0.0

    @property
    def pause(self) -> float:
        """Seconds left to wait now."""
        return max(0.0, self._until - time.monotonic())

    def failed(self) -> None:
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self.failures)
        self.failures += 1
        self._until = time.monotonic() + longest * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self.failures = 0
        self._until = 0.0


class Links:
    def __init__(self, server: str, connector: Connector) -> None:
        self.server = server
        self.connector = connector
        self.about: About | None = None
        """As the latest link has it; None before the first."""
        self.on_open: Callable[[bool], None] = lambda again: None
        """Told of each new link, and whether it takes the place of one that was lost."""
        self._had: set[Profile | None] = set()
        self.favourite = NOBODY
        """The profile to open with when we ask in our own name and no link is there."""
        self.patience: float | None = None
        """How long after a program's start its callers wait for it; None leaves that to the connector."""
        self.many_tenants = False
        """Whether callers may be strangers to each other."""
        self._shared: Link | None = None
        self._links: dict[Profile, Link] = {}
        self._used: dict[Profile, float] = {}
        self._opening: dict[Profile | None, asyncio.Task[Link]] = {}
        self._starting: dict[Profile, float] = {}
        """Since when a link is being opened for each of them."""
        self._opened_at = 0.0
        self._closing: set[asyncio.Task[None]] = set()
        self._watchers: dict[Watcher, None] = {}
        self._backoff = Backoff()
        self._closed = False

    @property
    def is_open(self) -> bool:
        return any(not link.closed for link in (*self._links.values(), *filter(None, [self._shared])))

    def opening(self) -> Start | None:
        """How the first one comes along; None when there is one already, or none is being opened."""
        if not self._starting or self.is_open:
            return None
        return Start(time.monotonic() - min(self._starting.values()), self.connector.activity)

    async def get(self, call: Call) -> Link:
        """A link for this call. Opens one if need be, after the pause that earlier failures ask for."""
        shared = self._shared
        if shared is not None and not shared.closed:
            return shared
        profile = _profile(call)
        if self.patience is None:
            return await self.by_profile(profile)
        try:
            start = self.opening()
            async with asyncio.timeout(self.patience - (start.seconds if start is not None else 0.0)):
                return await self.by_profile(profile)
        except TimeoutError:
            raise self._starting_still() from None

    def _starting_still(self) -> Starting:
        words = str(self.opening() or Start(self.patience or 0.0))
        return Starting(self.server, f"it is still starting ({words}); try again in a while", AGAIN_SECONDS)

    def of(self, call: Call) -> Link | None:
        """The session that speaks for this call's client, if there is one."""
        link = self._links.get(_profile(call))
        return None if link is None or link.closed else link

    def _own(self) -> Profile:
        """As whom we read lists for everybody: able to do what the latest client can, but nobody's session.

        What a server shows because of one tenant's answers is not another's to see; so nothing is answered.
        """
        if self.favourite is NOBODY:
            return NOBODY
        return Profile(self.favourite.capabilities, client="catalogue")

    def let_go(self, call: Call) -> None:
        """This call's client has gone: close the session that was its own."""
        profile = _profile(call)
        link = None if profile is NOBODY else self._links.pop(profile, None)
        if link is not None:
            self._close_later(link)
        if self.favourite == profile:
            self.favourite = NOBODY

    async def any(self) -> Link:
        """A link for what we ask in our own name: of those that are open the latest."""
        if self.many_tenants:
            return await self.by_profile(self._own())
        # Servers show more to a client that can be asked; so what is open for one of those comes first.
        asked = [link for profile, link in self._links.items() if profile is not NOBODY]
        others = [link for profile, link in self._links.items() if profile is NOBODY]
        for link in (self._shared, *reversed(asked), *others):
            if link is not None and not link.closed:
                return link
        return await self.by_profile(self.favourite)

    async def by_profile(self, profile: Profile) -> Link:
        while True:
            if self._shared is not None and not self._shared.closed:
                return self._shared
            link = self._links.get(profile)
            if link is not None and not link.closed:
                self._used[profile] = time.monotonic()
                return link
            await self._open_once(profile)

    async def _open_once(self, profile: Profile) -> Link:
        """Callers who come while a link is being opened wait for it together.

        Until it is known to be a legacy upstream, one link may well serve all of them.
        """
        if self._closed:
            raise NotReached(self.server, "it is being unmounted")
        key = profile if self.about is not None and self.about.era == "legacy" else None
        task = self._opening.get(key)
        if task is None:
            # A link outlives the call that had it opened, and must not speak in its name in the log.
            task = self._opening[key] = asyncio.create_task(self._open(profile), context=Context())
            task.add_done_callback(lambda _: self._opening.pop(key, None))
            # When all who wait have given up, nobody would look at its failure.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _open(self, profile: Profile) -> Link:
        self._drop_closed()
        if time.monotonic() - self._opened_at < LIVED_SECONDS and not self.is_open:
            self._backoff.failed()  # the last one was gone as soon as it was there
        if (pause := self._backoff.pause) > 0:
            await asyncio.sleep(pause)
        self._make_room(profile)
        self._starting[profile] = time.monotonic()
        try:
            link = await self.connector.open(profile)
        except UpstreamError:
            self._backoff.failed()
            raise
        finally:
            del self._starting[profile]
        self._used = {known: at for known, at in self._used.items() if known in self._links}
        if self._closed:
            await link.close()
            raise NotReached(self.server, "it is being unmounted")
        if time.monotonic() - self._opened_at > LIVED_SECONDS:
            self._backoff.reset()
        self._opened_at = time.monotonic()
        self.about = link.about
        kind = None if link.about.era == "modern" else profile
        again = kind in self._had
        if len(self._had) < MAX_LINKS:
            self._had.add(kind)
        if link.about.era == "modern":
            self._shared = link
        else:
            self._links[profile] = link
            self._used[profile] = time.monotonic()
            for watcher in self._watchers:
                link.watch(watcher)
        self.on_open(again)
        return link

    def _drop_closed(self) -> None:
        for profile, link in list(self._links.items()):
            if link.closed:
                self._close_later(self._links.pop(profile))
        if self._shared is not None and self._shared.closed:
            self._close_later(self._shared)
            self._shared = None

    def _make_room(self, profile: Profile) -> None:
        """Sessions are few: a principal has a share of them, and who needs none of their own is let in."""
        if profile is NOBODY:
            return
        others = {*self._links, *self._starting} - {NOBODY, profile}
        theirs = {known for known in others if known.principal == profile.principal}
        for known, limit in ((theirs, MAX_LINKS_EACH), (others, MAX_LINKS)):
            idle = [one for one in known if one in self._links and not self._links[one].busy]
            idle.sort(key=lambda one: self._used.get(one, 0))
            for _ in range(len(known) - limit + 1):
                if not idle:
                    raise Busy(self.server, f"{len(known)} sessions with it are busy already")
                self._close_later(self._links.pop(idle.pop(0)))

    def close_idle(self) -> None:
        """Let go of sessions that nobody has used for a while, but for the latest."""
        now = time.monotonic()
        for profile in sorted(self._links, key=lambda profile: self._used.get(profile, 0))[:-1]:
            if now - self._used.get(profile, 0) > IDLE_SECONDS and not self._links[profile].busy:
                self._close_later(self._links.pop(profile))

    def _close_later(self, link: Link) -> None:
        task = asyncio.create_task(link.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def watch(self, watcher: Watcher) -> None:
        """Hear what any legacy session says of its own accord, also of those that are opened later."""
        self._watchers[watcher] = None
        for link in self._links.values():
            link.watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)
        for link in self._links.values():
            link.unwatch(watcher)

    async def reset(self) -> None:
        """Close what is open; the next who needs a link gets a new one."""
        for link in [*self._links.values(), *filter(None, [self._shared])]:
            self._close_later(link)
        self._links.clear()
        self._shared = None

    async def close(self) -> None:
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        links = [*self._links.values(), *filter(None, [self._shared])]
        self._links.clear()
        self._shared = None
        closing = [*self._closing, *(asyncio.create_task(link.close()) for link in links), *opening]
        if closing:
            await asyncio.wait(closing)


def _profile(call: Call) -> Profile:
    profile = profile_of(call.caller, call.session.id if call.session is not None else "")
    if profile is NOBODY and call.secrets:
        # A server may remember in a session whose key it saw there first, and use it for whoever comes next.
        return Profile(principal=call.caller.identity.principal)
    return profile
