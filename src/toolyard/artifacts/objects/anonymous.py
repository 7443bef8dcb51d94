"""Plain requests to object storage, for what obstore does not do: making a bucket, and looking in as a
stranger.

Neither has a key in it: the first has an address that was signed, and the second must not have one.
"""

import re

from ..remote.bucket import Forbidden, NoBucket
from ..store import Unreachable

_XML = (
    '<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
)
# The first has no constraint of its own, the second is what stores without regions are told.
_NO_CONSTRAINT = ("", "us-east-1", "auto")
_CODE = re.compile(r"<Code>(\w+)</Code>")


async def create_bucket(url: str, name: str, region: str) -> None:
    """Make a bucket of S3 at the address that was signed for it."""
    import aiohttp  # 90 ms of CPU, and only for a bucket that is missing

    body = "" if region in _NO_CONSTRAINT else _XML.format(region=region)
    try:
        async with aiohttp.ClientSession() as http, http.put(url, data=body) as reply:
            status, text = reply.status, (await reply.content.read(4096)).decode(errors="replace")
    except (aiohttp.ClientError, OSError):
        raise Unreachable("the store cannot be reached") from None
    if status < 300:
        return
    found = _CODE.search(text)
    code = found[1] if found else f"HTTP {status}"
    if code == "BucketAlreadyOwnedByYou":
        return
    if code == "BucketAlreadyExists":
        raise Forbidden(f"the bucket {name!r} is somebody else's; choose another name")
    raise NoBucket(
        f"there is no bucket {name!r}, and it could not be created ({code}): aws s3 mb s3://{name}"
    )


async def can_be_read(url: str) -> bool:
    import aiohttp

    try:
        async with aiohttp.ClientSession() as http, http.head(url, allow_redirects=True) as reply:
            return reply.status == 200
    except (aiohttp.ClientError, OSError):
        return False
