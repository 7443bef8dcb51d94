"""From the configuration to a store. Nothing is connected here; `Store.start` does that."""

import tempfile
from pathlib import Path

from ..config import StoreConfig
from .links import Links
from .local import LocalStore
from .store import Store


def open_store(config: StoreConfig, folder: Path | None, links: Links) -> Store:
    """`folder` is where the gateway keeps its state; without one, results lie with temporary files."""
    path = config.url.removeprefix("local:").removeprefix("//")
    kept = (folder or Path(tempfile.gettempdir()) / "toolyard") / "results"
    return LocalStore(Path(path) if path else kept, config.ttl, config.quota, links)
