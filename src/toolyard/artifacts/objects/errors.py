"""What obstore says went wrong, in words fit for users: no address, no key, nothing of its insides.

obstore has few classes of errors and long messages; the status and the service's own code are read out of
those.
"""

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager

from obstore.exceptions import BaseError

from ..remote.bucket import Forbidden, NoBucket
from ..store import StoreError, Unreachable

logger = logging.getLogger("toolyard.artifacts")

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
WRONG_KEY = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired"),
    *("AuthenticationFailed", "InvalidAuthenticationInfo", "AuthenticationRequired"),
)
# Where credentials are asked for when none were given: on machines of the cloud, and nowhere else.
_ASKING_FOR_CREDENTIALS = ("169.254.169.254", "metadata.google.internal", "/oauth2/", "sts.", "169.254.170.2")


class WrongKey(Forbidden):
    """It takes our key for nothing at all."""


class NoObject(StoreError):
    pass


@contextmanager
def told(bucket: str) -> Generator[None]:
    """Errors of obstore become ours."""
    try:
        yield
    except FileNotFoundError as error:
        if _code(str(error)) in _NO_BUCKET:
            raise NoBucket(f"there is no bucket {bucket!r}") from None
        raise NoObject("the store does not have it any more") from None
    except (BaseError, OSError, ValueError) as error:
        logger.debug("the bucket %r: %s", bucket, error)
        raise _reason(bucket, str(error)) from None


def _code(text: str) -> str:
    found = _CODE.search(text)
    return found[1] if found else ""


def _reason(bucket: str, text: str) -> StoreError:
    code = _code(text)
    found = _STATUS.search(text)
    status = int(found[1]) if found else 0
    if code in _NO_BUCKET:
        return NoBucket(f"there is no bucket {bucket!r}")
    if any(place in text for place in _ASKING_FOR_CREDENTIALS):
        return WrongKey(f"no credentials for the bucket {bucket!r} were found, or they are not accepted")
    if code in WRONG_KEY or status == 401:
        return WrongKey(f"the key for the bucket {bucket!r} is not accepted")
    if status == 403 or "lacked the necessary privileges" in text:
        return Forbidden(f"the bucket {bucket!r} does not allow this to our key")
    if status:
        return Unreachable(f"the store answers with HTTP {status}")
    if "TimedOut" in text or "timed out" in text:
        return Unreachable("the store did not answer in time")
    return Unreachable("the store cannot be reached")
