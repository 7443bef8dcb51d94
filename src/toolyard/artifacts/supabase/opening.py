"""From `[store]` to a bucket of Supabase: options first, then the variables that its users have."""

import os
from urllib.parse import unquote, urlsplit

from ...config import ConfigError, StoreConfig
from ..links import Links
from ..remote.copies import Copies
from ..remote.manner import manner_of
from ..remote.store import RemoteStore
from .bucket import SupabaseBucket
from .client import SupabaseClient

DEFAULT_BUCKET = "tool-outputs"
_VARIABLES = {
    "url": "SUPABASE_URL",
    "key": "SUPABASE_SERVICE_ROLE_KEY",
    "bucket": "SUPABASE_TOOL_OUTPUT_BUCKET",
}


def open_supabase(config: StoreConfig, links: Links, copies: Copies) -> RemoteStore:
    parts = urlsplit(config.url)
    options = dict(config.options)
    manner = manner_of(options, parts.path)
    if manner.encoding != "identity":
        raise ConfigError(
            '[store.options] has compress = "gzip", and Supabase does not remember that an object is packed',
            "leave it out: Supabase's own network packs what it sends",
        )
    found = {
        name: options.pop(name, "") or os.environ.get(variable, "") for name, variable in _VARIABLES.items()
    }
    if options:
        known = ", ".join((*_VARIABLES, "sweep", "links"))
        raise ConfigError(f"[store.options] {next(iter(options))!r} is unknown", f"Supabase takes {known}")
    for name in ("url", "key"):
        if not found[name]:
            raise ConfigError(
                f"[store] {config.url!r} needs the {name} of a project",
                f"set {_VARIABLES[name]}, or {name} in [store.options]",
            )
    if urlsplit(found["url"]).scheme not in ("http", "https"):
        raise ConfigError("[store] the url of the Supabase project is none", "https://NAME.supabase.co")
    bucket = unquote(parts.netloc) or found["bucket"] or DEFAULT_BUCKET
    client = SupabaseClient(found["url"], found["key"])
    return RemoteStore(
        SupabaseBucket(client, bucket, config.links == "public"), config, manner, links, copies
    )
