"""From the configuration to a store. Connects nothing: `ArtifactStore.start` does that."""

import tempfile
from importlib.util import find_spec
from pathlib import Path

from ..config import ConfigError, StoreConfig
from .local import LocalArtifactStore
from .remote.cache import ArtifactCache
from .store import ArtifactStore, ResultLinks

LEAST_COPIES = 1024**3


def open_store(config: StoreConfig, folder: Path | None, links: ResultLinks) -> ArtifactStore:
    """`folder` is where the gateway keeps its state; without one, results lie with temporary files."""
    scheme = config.url.partition(":")[0]
    place = folder or Path(tempfile.gettempdir()) / "toolyard"
    if scheme in ("", "local"):
        path = config.url.removeprefix("local:").removeprefix("//")
        return LocalArtifactStore(Path(path) if path else place / "results", config.ttl, config.quota, links)
    # A tenant may have one result that takes the whole quota, and it must be possible to read it.
    copies = ArtifactCache(place, max(LEAST_COPIES, config.quota))
    if scheme == "supabase":
        from .remote.supabase import open_supabase

        return open_supabase(config, links, copies)
    if find_spec("obstore") is None:
        raise ConfigError(
            f"[store] {config.url!r} needs a package that is not installed", "pip install 'toolyard[objects]'"
        )
    from .remote.objects import open_objects  # 30 ms with obstore

    return open_objects(config, links, copies)
