"""From the configuration to a store. Nothing is connected here; `Store.start` does that."""

import tempfile
from importlib.util import find_spec
from pathlib import Path

from ..config import ConfigError, StoreConfig
from .links import Links
from .local import LocalStore
from .remote.copies import Copies
from .store import Store

LEAST_COPIES = 1024**3


def open_store(config: StoreConfig, folder: Path | None, links: Links) -> Store:
    """`folder` is where the gateway keeps its state; without one, results lie with temporary files."""
    scheme = config.url.partition(":")[0]
    place = folder or Path(tempfile.gettempdir()) / "toolyard"
    if scheme in ("", "local"):
        path = config.url.removeprefix("local:").removeprefix("//")
        return LocalStore(Path(path) if path else place / "results", config.ttl, config.quota, links)
    # A tenant may have one result that takes the whole quota, and it must be possible to read it.
    copies = Copies(place, max(LEAST_COPIES, config.quota))
    if scheme == "supabase":
        from .supabase.opening import open_supabase

        return open_supabase(config, links, copies)
    if find_spec("obstore") is None:
        raise ConfigError(
            f"[store] {config.url!r} needs a package that is not installed", "pip install 'toolyard[objects]'"
        )
    from .objects.opening import open_objects  # 30 ms with obstore

    return open_objects(config, links, copies)
