"""Calls to AWS: KMS and Secrets Manager, by botocore, which finds credentials wherever AWS puts them.

All functions block; call them in a thread. No message contains a secret.
"""

import threading
from typing import Any

from ..extras import install_command
from .base import VaultError, VaultUnavailableError

_clients: dict[tuple[str, str], Any] = {}
_lock = threading.Lock()


class AwsRefusedError(VaultError):
    """AWS answered with an error; `code` is its name for it."""

    def __init__(self, message: str, hint: str, code: str) -> None:
        super().__init__(message, hint)
        self.code = code


def call_aws(service: str, operation: str, place: str, **arguments: Any) -> dict[str, Any]:
    """`place` is an ARN or a name; an ARN names the region to ask."""
    client = _client(service, region_of(place))
    from botocore.exceptions import BotoCoreError, ClientError  # pyright: ignore

    try:
        return getattr(client, operation)(**arguments)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "")) or "unknown"  # pyright: ignore
        raise AwsRefusedError(
            f"AWS refused {operation!r} of {place[:200]!r}: {code}",
            "check the name, the region, and that this role may use it",
            code,
        ) from None
    except BotoCoreError as error:
        raise VaultUnavailableError(
            f"AWS cannot be asked about {place[:200]!r}: {type(error).__name__}",
            "check the credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID, a role) and AWS_REGION",
        ) from None


def region_of(place: str) -> str:
    parts = place.split(":")
    return parts[3] if len(parts) > 4 and parts[0] == "arn" else ""


def _client(service: str, region: str) -> Any:
    try:
        from botocore.config import Config  # pyright: ignore  # 150 ms
        from botocore.exceptions import BotoCoreError  # pyright: ignore
        from botocore.session import get_session  # pyright: ignore
    except ImportError:
        raise VaultError("AWS needs a package that is not installed", install_command("aws")) from None
    with _lock:
        found = _clients.get((service, region))
        if found is None:
            settings = Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 3})
            try:
                found = get_session().create_client(service, region_name=region or None, config=settings)  # pyright: ignore
            except BotoCoreError as error:
                raise VaultUnavailableError(
                    f"AWS {service} cannot be used: {type(error).__name__}",
                    "set AWS_REGION, or give the whole ARN",
                ) from None
            _clients[service, region] = found
        return found
