"""From `[store]` to a bucket of S3, GCS or Azure: which of the options are whose.

Options have the names that obstore gives them; where one is missing, obstore looks for the variable of the
environment that the service's users expect.
"""

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from ...config import ConfigError, StoreConfig
from ..links import Links
from ..remote.copies import Copies
from ..remote.manner import manner_of
from ..remote.store import RemoteStore
from .bucket import ObjectBucket

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

CLIENT_OPTIONS = (
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "pool_idle_timeout", "user_agent"),
    *("pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes", "root_certificate"),
)
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gcs": ("GOOGLE_BASE_URL",),
    "azure": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_TYPES: dict[str, Literal["s3", "gcs", "azure"]] = {"s3": "s3", "gs": "gcs", "az": "azure"}
_STORES = {"s3": S3Store, "gcs": GCSStore, "azure": AzureStore}


def open_objects(config: StoreConfig, links: Links, copies: Copies) -> RemoteStore:
    parts = urlsplit(config.url)
    if not parts.netloc:
        raise ConfigError(f"[store] {config.url!r} names no bucket", f'"{parts.scheme}://BUCKET/PREFIX"')
    type = _TYPES[parts.scheme]
    options = dict(config.options)
    manner = manner_of(options, parts.path)
    public_base = options.pop("public_base", "").rstrip("/")
    store = _built(type, parts.netloc, options, config.timeout)
    bucket = ObjectBucket(type, parts.netloc, manner.prefix, store, _region(options), public_base)
    return RemoteStore(bucket, config, manner, links, copies)


def _built(type: str, name: str, options: dict[str, str], timeout: float) -> Any:
    client = {key: options.pop(key) for key in CLIENT_OPTIONS if key in options}
    if _endpoint(type, options).startswith("http://"):
        client.setdefault("allow_http", "true")  # whoever writes `http://` has decided
    patience = timedelta(seconds=timeout)
    retries: RetryConfig = {
        "max_retries": 2,
        "retry_timeout": patience,
        "backoff": {"max_backoff": timedelta(seconds=1)},
    }
    try:
        return _STORES[type](
            name,
            config=cast(Any, options),
            client_options=cast("ClientConfig", {"timeout": patience, "user_agent": "toolyard", **client}),
            retry_config=retries,
        )
    except (BaseError, ValueError, TypeError, OSError) as error:
        # The first line says what is wrong; what follows is obstore's own affair.
        why = str(error).partition("\n")[0]
        raise ConfigError(f"[store.options] cannot be used: {why}", "options have obstore's names") from None


def _endpoint(type: str, options: dict[str, str]) -> str:
    for name, value in options.items():
        if "endpoint" in name.lower() or name.lower().endswith("base_url"):
            return value
    return next((os.environ[name] for name in _ENDPOINTS[type] if os.environ.get(name)), "")


def _region(options: dict[str, str]) -> str:
    names = ("region", "aws_region", "default_region", "aws_default_region")
    found = next((options[name] for name in names if options.get(name)), "")
    return found or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
