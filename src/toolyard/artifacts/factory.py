"""Opens the store that the configuration names. `ArtifactStore.start` connects it."""

import tempfile
from importlib.util import find_spec
from pathlib import Path

from ..config import ConfigError, StoreConfig
from ..extras import install_command
from .local import LocalArtifactStore
from .remote.cache import ArtifactCache
from .store import ArtifactStore, NewId, ResultLinks, new_id

MIN_CACHE_BYTES = 1024**3


def open_store(
    config: StoreConfig, folder: Path | None, links: ResultLinks, make_id: NewId = new_id
) -> ArtifactStore:
    """`folder` is the gateway's state folder; without one, a folder for temporary files is used.

    `make_id` is for a folder; elsewhere an id of another could be overwritten.
    """
    scheme = config.url.partition(":")[0]
    parent = folder or Path(tempfile.gettempdir()) / "toolyard"
    if scheme in ("", "local"):
        path = config.url.removeprefix("local:").removeprefix("//")
        place = Path(path) if path else parent / "results"
        return LocalArtifactStore(place, config.ttl, config.quota, links, make_id)
    # One result may take a whole quota, and its copy must fit.
    cache = ArtifactCache(parent, max(MIN_CACHE_BYTES, config.quota))
    if scheme == "supabase":
        from .remote.supabase import open_supabase

        return open_supabase(config, links, cache)
    if find_spec("obstore") is None:
        raise ConfigError(
            f"[store] {config.url!r} needs a package that is not installed", install_command("objects")
        )
    from .remote.objects import open_objects  # 30 ms with obstore

    return open_objects(config, links, cache)
