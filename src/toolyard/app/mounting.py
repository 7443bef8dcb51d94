"""One upstream as the gateway holds it: the pieces that are put together for each of them."""

from urllib.parse import urlsplit

from msgspec import Raw

from ..bridge import Bridge
from ..catalogue.catalogue import Identity
from ..catalogue.keeper import Keeper
from ..config import Http, ServerConfig, Stdio
from ..dispatch import Mount
from ..upstream.inprocess import InProcess
from ..upstream.link import About


class Health:
    """An upstream's breaker and connections, as its keeper needs them."""

    def __init__(self, mount: Mount, service: Bridge | InProcess) -> None:
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


def look_after(keeper: Keeper, reason: str, opened: bool) -> None:
    if opened:
        keeper.blame(reason)
    keeper.wake()


def mount_of(config: ServerConfig, service: Bridge | InProcess) -> Mount:
    where = config.where
    transport = "stdio" if isinstance(where, Stdio) else "http" if isinstance(where, Http) else "inprocess"
    mount = Mount(config, service, transport)
    if isinstance(where, Http):
        parts = urlsplit(where.url)
        mount.address = parts.hostname or ""
        mount.port = parts.port or (443 if parts.scheme == "https" else 80)
    return mount


async def identify(service: Bridge | InProcess) -> Identity:
    about: About
    if isinstance(service, Bridge):
        about = (await service.links.any()).about
    else:
        about = await service.about()
    return Identity(about.version, Raw(bytes(about.info)), about.capabilities, about.instructions)
