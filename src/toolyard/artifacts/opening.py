"""From the configuration to a store. Nothing is connected here; `Store.start` does that."""

import tempfile
from pathlib import Path

from ..config import StoreConfig
from .links import Links
from .local import LocalStore
from .store import Store


def open_store(config: StoreConfig, folder: Path | None, links: Links) -> Store:
    """`folder` is where the gateway keeps its state; without one, results go to the folder for such things."""
    path = config.url.removeprefix("local:").removeprefix("//")
    if path:
        place = Path(path)
    else:
        place = (folder or Path(tempfile.gettempdir()) / "toolyard") / "results"
    return LocalStore(place, config.ttl, config.quota, links)
