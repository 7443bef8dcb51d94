"""One upstream as the gateway holds it: the pieces that are put together for each of them."""

from urllib.parse import urlsplit

from msgspec import Raw

from ..bridge import Bridge
from ..catalogue.catalogue import Identity
from ..catalogue.keeper import Keeper
from ..config import Composio, Http, ServerConfig, Stdio
from ..dispatch import Mount
from ..dispatch.composio import ComposioUpstream
from ..dispatch.mount import Handles
from ..upstream.inprocess import InProcess
from ..upstream.link import About

Service = Bridge | InProcess | ComposioUpstream


class Health:
    """An upstream's breaker and connections, as its keeper needs them."""

    def __init__(self, mount: Mount, service: Service) -> None:
        self._mount = mount
        self._service = service
        self.well = mount.breaker.well
        self.unwell = mount.breaker.unwell

    @property
    def is_open(self) -> bool:
        return self._mount.breaker.is_open

    @property
    def busy(self) -> bool:
        return self._mount.in_flight > 0

    async def reset(self) -> None:
        if isinstance(self._service, Bridge):
            await self._service.links.reset()
        elif isinstance(self._service, ComposioUpstream):
            await self._service.reset()


def look_after(keeper: Keeper, reason: str, opened: bool) -> None:
    if opened:
        keeper.blame(reason)
    keeper.wake()


def mount_of(config: ServerConfig, service: Service, handler: Handles) -> Mount:
    """`handler` takes the calls: the service itself, or what stands before it."""
    where = config.where
    url = where.url if isinstance(where, Http) else where.base_url if isinstance(where, Composio) else ""
    mount = Mount(config, handler, "http" if url else "stdio" if isinstance(where, Stdio) else "inprocess")
    if url:
        parts = urlsplit(url)
        mount.address = parts.hostname or ""
        mount.port = parts.port or (443 if parts.scheme == "https" else 80)
    if isinstance(service, Bridge):
        mount.let_go = service.links.let_go
        mount.roots_changed = service.roots_changed
    elif isinstance(service, ComposioUpstream):
        service.guard(mount.breaker)
    return mount


async def identify(service: Service) -> Identity:
    about: About
    if isinstance(service, Bridge):
        about = (await service.links.any()).about
    else:
        about = await service.about()
    return Identity(about.version, Raw(bytes(about.info)), about.capabilities, about.instructions)
